//! Messages of a stream that follow one another, in one call of their handler, which the mark of the stream records.
//!
//! A transport that reads a stream gives them here, if [`Executor::records_by_mark`] says so. Nothing is claimed for
//! them and no record is kept: the mark is moved over them in the handler's own transaction. What is left here goes by
//! [`Executor::handle`], as a message that [moves the mark](super::Prepared::moving_mark) itself.
//!
//! What must stay true:
//!
//! - The handler's writes are committed only together with the mark, and only under the lease of the stream.
//! - A message is not passed unless all of its stretch up to it succeeded.
//! - Where nobody knows whether a commit was carried out, nothing runs before the mark was read anew under another
//!   token.
// docs/decisions/0049

use std::{
    any::Any,
    fmt,
    pin::pin,
    sync::{Mutex, PoisonError},
};

use super::{
    Cause, Executor, RunsOn,
    atomic::NO_OUTBOX,
    guarded,
    heartbeat::{Limit, Ran, run_all_within},
};
use crate::{
    error_chain::ErrorChain,
    handler::{
        AtomicBatch, Attempt, Batch, BatchOptions, Enforcement, Handler, Late, Member, Mode,
        Operation, Outbox, Outgoing, Policy,
    },
    message::{Envelope, Key},
    store::{
        BatchStore, Finish, Finished, MarkMove, Open, Store, StreamLease, TransactionalStore as _,
    },
};

/// The next messages of a stream, from its mark on.
#[derive(Debug)]
pub struct Stretch<'a> {
    /// Who reads the stream.
    pub lease: &'a StreamLease,
    /// The mark.
    pub from: u64,
    /// The messages in their order, each with the mark that lies behind it.
    pub messages: Vec<(Decoded, u64)>,
}

/// A decoded message with its key, or a note that it must be handled alone. A transport can make it when the message
/// comes, while the call before it still runs.
///
/// The mutex is never locked. Messages need not be `Sync`, and what waits with one is.
pub struct Decoded(Mutex<Box<dyn Any + Send>>);

/// What is known of a message of this handler.
struct Named<H: Operation> {
    message: H::Message,
    key: Key,
    envelope: Envelope,
}

impl Decoded {
    /// Decodes a message for a call of this handler, and of no other.
    pub fn of<H: Operation>(envelope: Envelope) -> Self {
        Self(Mutex::new(Box::new(Named::<H>::of(envelope))))
    }
}

impl fmt::Debug for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoded").finish_non_exhaustive()
    }
}

/// What became of a stretch.
#[derive(Debug, PartialEq, Eq)]
pub enum Moved {
    /// The first ones, which have these keys, are done, and the mark is behind them. If there is a next one, it is to
    /// be handled alone.
    Over(Vec<Key>),
    /// Nothing is done, because of one of them, which has failed of this: fewer are to be tried, and one alone by
    /// [`Executor::handle`].
    Undone(String),
    /// Nothing is done, because the store could not be asked for a transaction.
    Unavailable(String),
    /// Whether it is done nobody knows, or another worker has the stream. The mark tells, when it was claimed anew.
    Unknown(String),
    /// The executor is closed, and nothing is done.
    Closed,
}

impl<S: Store> Executor<S> {
    /// How large the stretches may be that a handler does without a record for each message, if it does: its key is the
    /// message's position and nothing else, and it writes batches in the store's transaction.
    #[doc(hidden)]
    pub fn records_by_mark<H>(&self, policy: &Policy) -> Option<BatchOptions>
    where
        H: Operation,
        H::Mode: RunsOn<S>,
    {
        let records = H::IS_NAMED_BY_POSITION
            && H::Mode::MOVES_MARKS
            && policy.enforcement() == Enforcement::Enforce
            && policy.late() == Late::Run;
        H::BATCH.filter(|_| records)
    }

    /// Calls a handler with messages of a stream, and moves the mark over them in the same commit.
    #[doc(hidden)]
    pub async fn move_mark<H, St>(&self, stretch: Stretch<'_>, policy: &Policy, state: &St) -> Moved
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
        St: Send + Sync + 'static,
    {
        let moved = <H::Mode as RunsOn<S>>::move_mark::<H, St>(self, stretch, policy, state);
        match run_all_within(&mut [], None, moved).await {
            Ran::Returned(moved) => moved,
            // Not of the handler, whose panic is a failed call: the commit may have been sent.
            Ran::Panicked(panic) => {
                Moved::Unknown(format!("the code round the handler panicked: {panic}"))
            }
            Ran::Overdue(_) | Ran::LeaseLost => unreachable!("it has no limit and no lease"),
        }
    }
}

/// [`Executor::move_mark`] of handlers that write batches in the store's transaction.
///
/// Dropped half way, it may have sent the commit: then nobody knows.
pub(super) async fn move_mark<S, Tx, H, St>(
    executor: &Executor<S>,
    stretch: Stretch<'_>,
    policy: &Policy,
    state: &St,
) -> Moved
where
    S: BatchStore<Tx>,
    Tx: Send + 'static,
    H: Handler<St, Mode = AtomicBatch<Tx>>,
    St: Send + Sync + 'static,
{
    let Stretch {
        lease,
        from,
        messages,
    } = stretch;
    let (members, to) = members::<H>(messages);
    let Some(to) = to else {
        return Moved::Over(Vec::new());
    };
    let opened = tokio::select! {
        biased;
        () = executor.closed.closing() => return Moved::Closed,
        opened = executor.store.open(Open::Batch) => opened,
    };
    let mut transaction = match opened {
        Ok(transaction) => transaction,
        Err(error) => return Moved::Unavailable(ErrorChain::of(&error).to_string()),
    };
    if executor.is_closed() {
        executor.roll_back::<Tx>(transaction).await;
        return Moved::Closed;
    }
    let keys = members.iter().map(|it| it.key().clone()).collect();
    let outboxes: Vec<_> = members.iter().filter_map(|it| it.outbox.clone()).collect();
    let limit = Limit::shorter(policy.timeout(), executor.store.time_limit());
    let lent = S::lend(&mut transaction);
    let called = call::<S, H, St>(executor, Batch::new(members), state, lent, limit).await;
    let outgoing: Vec<Outgoing> = outboxes.iter().flat_map(Outbox::take).collect();
    let called = called.and_then(|()| {
        if outgoing.is_empty() || executor.store.outbox().is_some() {
            Ok(executor.committed.ready(outgoing))
        } else {
            Err(NO_OUTBOX.to_owned())
        }
    });
    let outgoing = match called {
        Ok(outgoing) => outgoing,
        Err(error) => {
            executor.roll_back::<Tx>(transaction).await;
            executor.handlers.batch_halved(H::SCOPE);
            return Moved::Undone(error);
        }
    };
    let finish = Finish::MoveMark {
        mark: MarkMove::new(lease, from, to),
        outgoing: &outgoing,
    };
    match executor.store.finish(transaction, finish).await {
        Ok(Finished::Committed) => {
            executor.committed.hand_on(outgoing);
            Moved::Over(keys)
        }
        Ok(Finished::Refused { error }) => {
            executor.handlers.batch_halved(H::SCOPE);
            Moved::Undone(error)
        }
        Ok(Finished::Fenced) => {
            Moved::Unknown("another worker reads the stream, or its mark was set".into())
        }
        Ok(other) => Moved::Unknown(other.is_no_answer("a mark").to_string()),
        Err(error) => Moved::Unknown(ErrorChain::of(&error).to_string()),
    }
}

/// The first messages of a stretch, up to one that needs a look at it alone, and the mark behind them, if there are
/// any.
fn members<H: Operation>(messages: Vec<(Decoded, u64)>) -> (Vec<Member<H::Message>>, Option<u64>) {
    // No record counts it, so it is never the last one. Its token is below those that claims of its key give.
    let attempt = Attempt::unrecorded(u32::MAX);
    let mut members = Vec::with_capacity(messages.len());
    let mut to = None;
    for (Decoded(decoded), end) in messages {
        let decoded = decoded.into_inner().unwrap_or_else(PoisonError::into_inner);
        let named = decoded.downcast::<Option<Named<H>>>();
        let named = named.expect("it was decoded for the handler that is called with it");
        let Some(Named {
            message,
            key,
            envelope,
        }) = *named
        else {
            break;
        };
        let outbox = H::PUBLISHES.then(|| Outbox::for_key(&key));
        members.push(Member::new(message, key, envelope, attempt, outbox));
        to = Some(end);
    }
    (members, to)
}

impl<H: Operation> Named<H> {
    /// `None` if it cannot be decoded, is not valid or has no key: `Prepared` says how it ends.
    fn of(envelope: Envelope) -> Option<Self> {
        let named = guarded::caught(|| {
            let message = H::decode(&envelope).ok()?;
            H::validate(&message).ok()?;
            let key = H::key(&message, &envelope).ok()?;
            Some((message, key))
        });
        let (message, key) = named.ok().flatten()?;
        Some(Self {
            message,
            key,
            envelope,
        })
    }
}

/// Calls the handler. The error says what the call, or one of its messages, has failed of.
async fn call<'a, S, H, St>(
    executor: &Executor<S>,
    batch: Batch<H::Message, H::Error>,
    state: &'a St,
    lent: <H::Mode as Mode>::Lent<'a>,
    limit: Option<Limit>,
) -> Result<(), String>
where
    S: Store,
    H: Handler<St>,
{
    let count = batch.len();
    executor.handlers.batch_called(H::SCOPE, count);
    let panicked = |panic| Cause::<H::Error>::Panicked(panic).to_string();
    let work = guarded::caught(|| H::call_batch(batch, state, lent))
        .map_err(panicked)?
        .map_err(|rejection| rejection.to_string())?;
    let work = pin!(executor.handlers.run(H::SCOPE, 1, false, work));
    let results = match run_all_within(&mut [], limit, work).await {
        Ran::Returned(results) => results.map_err(|error| guarded::cause(error).to_string())?,
        Ran::Panicked(panic) => return Err(panicked(panic)),
        Ran::Overdue(limit) => return Err(Cause::<H::Error>::from(limit).to_string()),
        // No lease of a key is held.
        Ran::LeaseLost => return Err("a lease is lost".into()),
    };
    if results.len() != count {
        return Err(format!("{} results for {count} messages", results.len()));
    }
    let failed = results.into_iter().find_map(Result::err);
    failed.map_or(Ok(()), |error| Err(guarded::cause(error).to_string()))
}
