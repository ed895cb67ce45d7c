//! Batches: several messages of one handler in one call.
//!
//! `#[idempotent(batch = 256)]` makes a handler of a function that takes a [`Batch`]; the executor makes the batches.
//! What must stay true:
//!
//! - The results of a batch are those of its messages, in their order, one for each.
//! - A member that was failed has a failure and no output.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;

use crate::{
    handler::{Attempt, Context, Failed, FromRef, Outbox, Outboxes, State},
    message::{Envelope, Key},
};

/// Messages with distinct keys, each of them claimed, which one call of their handler handles.
///
/// It is a slice of [`Member`]s. A member can be failed by its place, its [index](Member::index), before anything is
/// written for it: then the others succeed without it, and it fares like a message that was alone and failed.
///
/// ```
/// use idem_core::{Failed, handler::Batch, idempotent};
/// # #[derive(serde::Deserialize)] struct Notice { id: String, address: String }
/// # async fn send_all(_: &[&str]) -> Result<(), std::io::Error> { Ok(()) }
///
/// #[idempotent(key = "id", scope = "notices.send", batch = 100)]
/// async fn send(notices: Batch<Notice>) -> Result<(), Failed> {
///     for (i, notice) in notices.iter().enumerate() {
///         if notice.address.is_empty() {
///             notices.reject(i, "nobody to tell");
///         }
///     }
///     let addresses: Vec<_> = notices.accepted().map(|notice| &*notice.address).collect();
///     send_all(&addresses).await?;
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let notice = |address: &str| Notice { id: "n-1".into(), address: address.into() };
/// let notices = Batch::of([notice("a@example.com"), notice("")]);
/// let failures = notices.failures();
/// send(notices).await.unwrap();
/// assert!(!failures.is_failed(0) && failures.is_failed(1));
/// # });
/// ```
pub struct Batch<T, E = Failed> {
    members: Vec<Member<T>>,
    failures: Failures<E>,
}

/// A message of a [`Batch`]. It is the message, and knows what goes with it.
pub struct Member<T> {
    message: T,
    index: usize,
    key: Key,
    envelope: Envelope,
    attempt: Attempt,
    pub(crate) outbox: Option<Outbox>,
}

/// Which members of a [`Batch`] its handler has failed. Clones are of the same batch.
pub struct Failures<E>(Arc<Mutex<Vec<Place<E>>>>);

impl<T, E> Batch<T, E> {
    /// A batch of these messages: for calling a handler by hand, in a unit test. Their keys are made up.
    pub fn of(messages: impl IntoIterator<Item = T>) -> Self {
        let member = |(i, message): (usize, T)| {
            let key = Key::new("batch", i as u64).expect("a number is a part of a key");
            Member::new(message, key, Envelope::new(""), Attempt::first(), None)
        };
        Self::new(messages.into_iter().enumerate().map(member).collect())
    }

    pub(crate) fn new(mut members: Vec<Member<T>>) -> Self {
        for (i, member) in members.iter_mut().enumerate() {
            member.index = i;
        }
        let failures = members.iter().map(|_| Place::Accepted).collect();
        Self {
            members,
            failures: Failures(Arc::new(Mutex::new(failures))),
        }
    }

    /// The members that were not failed, in their order. Their [`index`](Member::index) is that in the whole batch.
    pub fn accepted(&self) -> impl Iterator<Item = &Member<T>> {
        let members = self.members.iter().enumerate();
        members
            .filter(|(i, _)| !self.failures.is_failed(*i))
            .map(|(_, member)| member)
    }

    /// Fails the member at this place: whether it is attempted again, the error says. Nothing may be written for it.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn fail(&self, index: usize, error: impl Into<E>) {
        self.failures.lock()[index] = Place::Failed(error.into());
    }

    /// Which members were failed, also when the handler has taken the batch.
    pub fn failures(&self) -> Failures<E> {
        self.failures.clone()
    }
}

impl<T> Batch<T> {
    /// Rejects the member at this place for good: it is dead-lettered, not attempted again. See [`fail`](Self::fail).
    ///
    /// # Panics
    /// If there is no such member.
    pub fn reject(&self, index: usize, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) {
        self.fail(index, Failed::rejected(error));
    }

    /// Fails this attempt of the member at this place, which is worth another one. See [`fail`](Self::fail).
    ///
    /// # Panics
    /// If there is no such member.
    pub fn retry(&self, index: usize, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) {
        self.fail(index, Failed::retry(error));
    }
}

impl<T, E> Deref for Batch<T, E> {
    type Target = [Member<T>];

    fn deref(&self) -> &[Member<T>] {
        &self.members
    }
}

impl<'a, T, E> IntoIterator for &'a Batch<T, E> {
    type Item = &'a Member<T>;
    type IntoIter = std::slice::Iter<'a, Member<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.iter()
    }
}

impl<T, E> fmt::Debug for Batch<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.members).finish()
    }
}

impl<T> Member<T> {
    pub(crate) fn new(
        message: T,
        key: Key,
        envelope: Envelope,
        attempt: Attempt,
        outbox: Option<Outbox>,
    ) -> Self {
        Self {
            message,
            index: 0,
            key,
            envelope,
            attempt,
            outbox,
        }
    }

    /// Its place in the batch, for [`reject`](Batch::reject), [`retry`](Batch::retry) and [`fail`](Batch::fail).
    pub fn index(&self) -> usize {
        self.index
    }

    /// The message's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The message as it was delivered.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Which attempt this is: the first one, unless the message is alone in its batch.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }
}

impl<T> Deref for Member<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.message
    }
}

impl<T> fmt::Debug for Member<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("key", &self.key)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What the handler has said of the member at one place.
enum Place<E> {
    Accepted,
    Failed(E),
    /// It was failed, and the error was taken out.
    Taken,
}

impl<E> Place<E> {
    fn is_failed(&self) -> bool {
        !matches!(self, Self::Accepted)
    }

    fn take(&mut self) -> Option<E> {
        if let Self::Accepted = self {
            return None;
        }
        match std::mem::replace(self, Self::Taken) {
            Self::Failed(error) => Some(error),
            Self::Accepted | Self::Taken => None,
        }
    }
}

impl<E> Failures<E> {
    /// Whether the member at this place was failed.
    pub fn is_failed(&self, index: usize) -> bool {
        self.lock().get(index).is_some_and(Place::is_failed)
    }

    /// Why the member at this place was failed, if it was. It is taken out, for tests of handlers: in a worker the call
    /// then fails for all, because nobody can be told any more how this member is to end.
    pub fn take(&self, index: usize) -> Option<E> {
        self.lock().get_mut(index)?.take()
    }

    /// Held for one look or one write; what is written under it is never half done.
    fn lock(&self) -> MutexGuard<'_, Vec<Place<E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Not derived: that would ask the same of the error.
impl<E> Clone for Failures<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E> fmt::Debug for Failures<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failures = self.lock();
        let failed = failures.iter().enumerate().filter(|(_, it)| it.is_failed());
        f.debug_tuple("Failures")
            .field(&failed.map(|(i, _)| i).collect::<Vec<_>>())
            .finish()
    }
}

/// How large the batches of a handler are: see [`Operation::BATCH`](crate::handler::Operation::BATCH).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    size: usize,
    bytes: usize,
    wait: Duration,
}

impl BatchOptions {
    /// Allows at most so many messages in a batch, of any length. A batch is what waits when it is taken, and waits
    /// for nothing.
    ///
    /// # Panics
    /// At compile time, if there are none.
    pub const fn new(size: usize) -> Self {
        assert!(size > 0, "a batch has at least one message");
        Self {
            size,
            bytes: usize::MAX,
            wait: Duration::ZERO,
        }
    }

    /// Allows at most so many bytes in the bodies of a batch; a message that is longer is alone in its batch.
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Lets a batch that is not full wait for so long for further messages.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How many messages a batch has at most.
    pub const fn most(&self) -> usize {
        self.size
    }

    /// How many bytes the bodies of a batch have at most.
    pub const fn most_bytes(&self) -> usize {
        self.bytes
    }

    /// How long a batch that is not full waits.
    pub const fn longest_wait(&self) -> Duration {
        self.wait
    }
}

/// A parameter that is the same for every message, so that a handler of batches can take it.
#[diagnostic::on_unimplemented(
    message = "a handler of batches cannot take `{Self}`: it may differ from message to message",
    label = "not the same for every message of a batch",
    note = "take what is each message's own from the batch: `orders[0].envelope()`, `.key()`, `.attempt()`",
    note = "`State<…>` is the same for every message, if it is a part of the worker's state"
)]
pub trait FromState<S>: Sized {
    /// Clones it from the worker's state.
    fn from_state(state: &S) -> Self;
}

impl<S, T: FromRef<S>> FromState<S> for State<T> {
    fn from_state(state: &S) -> Self {
        Self(T::from_ref(state))
    }
}

/// What a handler of batches may return: `()`, or an output for each message that it has not failed, in their order.
#[diagnostic::on_unimplemented(
    message = "a handler of batches does not return `{Self}`",
    label = "neither `()` nor a `Vec` of outputs",
    note = "write `-> Result<(), Failed>`, or `-> Result<Vec<Receipt>, Failed>` with an output for each message that was not failed, in their order"
)]
pub trait BatchOutput {
    /// The output for one message.
    type Each: Serialize + Send + 'static;

    /// The outputs for so many messages; `Err` says how many there are instead.
    #[doc(hidden)]
    fn into_each(self, accepted: usize) -> Result<Vec<Self::Each>, usize>;
}

impl BatchOutput for () {
    type Each = ();

    fn into_each(self, accepted: usize) -> Result<Vec<()>, usize> {
        Ok(vec![(); accepted])
    }
}

impl<T: Serialize + Send + 'static> BatchOutput for Vec<T> {
    type Each = T;

    fn into_each(self, accepted: usize) -> Result<Vec<T>, usize> {
        if self.len() == accepted {
            Ok(self)
        } else {
            Err(self.len())
        }
    }
}

/// A batch handler's return type, as that of one message.
#[doc(hidden)]
pub trait BatchReturned {
    /// How a message ends.
    type Each;
}

impl<T: BatchOutput, E> BatchReturned for Result<T, E> {
    type Each = Result<T::Each, E>;
}

/// The results of a batch, one for each message in their order; or why the call has failed for all.
pub type BatchResults<T, E> = Result<Vec<Result<T, E>>, E>;

/// What a handler has returned, as the results of its messages.
///
/// # Panics
/// If there are not as many outputs as messages that were not failed: a bug of the handler's, of which it is told like
/// of one of its own panics.
#[doc(hidden)]
pub fn results<T: BatchOutput, E>(
    returned: Result<T, E>,
    failures: &Failures<E>,
) -> BatchResults<T::Each, E> {
    let outputs = returned?;
    let mut failures = failures.lock();
    let accepted = failures.iter().filter(|it| !it.is_failed()).count();
    let mut outputs = match outputs.into_each(accepted) {
        Ok(outputs) => outputs.into_iter(),
        Err(returned) => {
            panic!("it returned {returned} outputs for {accepted} messages that it has not failed")
        }
    };
    let results = failures.iter_mut().map(|place| match place.take() {
        Some(error) => Err(error),
        // Not an output: it would be completed, and nothing was done.
        None if place.is_failed() => panic!("it has taken out why it has failed a message"),
        None => Ok(outputs.next().expect("as many as were not failed")),
    });
    Ok(results.collect())
}

/// A batch of the one message that a handler is called with.
#[doc(hidden)]
pub fn batch_of_one<T, E, S>(message: T, context: &Context<'_, S>) -> Batch<T, E> {
    let (key, envelope) = (context.key.clone(), context.envelope.clone());
    let outbox = context.outbox.clone();
    let member = Member::new(message, key, envelope, context.attempt, outbox);
    Batch::new(vec![member])
}

/// What the messages of a batch publish.
#[doc(hidden)]
pub fn outboxes<T, E>(batch: &Batch<T, E>) -> Outboxes {
    let outbox = |it: &Member<T>| {
        it.outbox
            .clone()
            .unwrap_or_else(|| Outbox::for_key(&it.key))
    };
    Outboxes::new(batch.iter().map(outbox).collect())
}

/// The result of a batch of one.
#[doc(hidden)]
pub async fn result_of_one<T, E>(batch: impl Future<Output = BatchResults<T, E>>) -> Result<T, E> {
    let mut results = batch.await?;
    results.pop().expect("one message has one result")
}

#[cfg(test)]
mod tests;
