//! Stores that keep no sessions and no sequences: they are never asked about a place in one.

use std::marker::PhantomData;

use super::{
    doubles::{Blank, Transaction, TransactionalDouble, Transactions},
    *,
};
use crate::{
    handler::{
        Atomic, Context, DecodeError, Enforcement, FencingToken, Grouped, Leased, Mode, Operation,
        Outcome, RecordedBy, RecordingConstraint, Rejection, SequenceOptions, StoreOutage,
        operation::sequence::{number, numbered, numbered_key},
    },
    message::{
        Envelope, KeyError, SequenceKey, SequencePlace, SessionKey, SessionNumber, SessionPlace,
    },
    store::{Finish, Finished, Lease, StoreError},
};

/// Records that have never heard of sessions and sequences: whatever is asked for is claimed.
#[derive(Debug, Clone, Default)]
struct Careless {
    claims: Arc<AtomicU32>,
}

/// Transactions that all commit.
#[derive(Debug, Clone, Default)]
struct Committing;

type Plain = TransactionalDouble<Careless, Committing>;

impl Store for Careless {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claims.fetch_add(1, SeqCst);
        let lease = Lease::new(request.key.clone(), FencingToken::new(1), 1, false);
        Ok(Claim::Acquired(lease))
    }

    async fn extend(&self, _: &Lease, _: Duration) -> Result<Write, StoreError> {
        Ok(Write::Applied)
    }

    async fn complete(&self, _: &Lease, _: &Outcome, _: Duration) -> Result<Write, StoreError> {
        Ok(Write::Applied)
    }

    async fn release(&self, _: &Lease, _: &Release) -> Result<Write, StoreError> {
        Ok(Write::Applied)
    }
}

impl Transactions for Committing {
    async fn finish<S: Store>(
        &self,
        _: &S,
        _: Transaction,
        _: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        Ok(Finished::Committed)
    }
}

fn plain() -> Plain {
    TransactionalDouble {
        store: Careless::default(),
        transactions: Committing,
    }
}

/// Reads a meter, in a mode. Its body is the number that the meter gave it.
struct Read<M>(PhantomData<M>);

macro_rules! reads {
    ($mode:ty, $recorded:expr) => {
        impl Operation for Read<$mode> {
            type Message = u64;
            type Output = u64;
            type Error = Failed;
            type Mode = $mode;
            const SCOPE: &'static str = "meters";
            const RECORDED_BY: Option<RecordingConstraint<Self>> = $recorded;
            const SEQUENCE: Option<SequenceOptions<Self>> = Some(
                SequenceOptions::new(|number, _| {
                    numbered(Key::builder("meters").part("meter", "m-7"), Ok(*number))
                })
                .in_envelope(|envelope| {
                    let number = number("x-number", &envelope.header("x-number"));
                    numbered(Key::builder("meters").part("meter", "m-7"), number)
                }),
            );

            fn decode(envelope: &Envelope) -> Result<u64, DecodeError> {
                envelope.json()
            }

            fn key(number: &u64, envelope: &Envelope) -> Result<Key, KeyError> {
                numbered_key::<Self>(number, envelope)
            }
        }

        impl Handler<AtomicU32> for Read<$mode> {
            fn call<'a>(
                number: u64,
                context: &'a Context<'a, AtomicU32>,
                _: <$mode as Mode>::Lent<'a>,
            ) -> Result<impl Future<Output = Result<u64, Failed>> + Send + 'a, Rejection> {
                context.state.fetch_add(1, SeqCst);
                Ok(async move { Ok(number) })
            }
        }
    };
}

reads!(Leased, None);
reads!(Atomic<Blank>, None);
reads!(Grouped<Blank, 8>, None);
reads!(
    RecordedBy<Blank>,
    Some(RecordingConstraint::new(
        "readings_key",
        1,
        |number: &u64, _| Ok(vec![number.to_string()]),
        |error: &Failed| Some(error.error()),
    ))
);

const FAIL_OPEN: Policy = Policy::builder()
    .store_outage(StoreOutage::FailOpen)
    .build_const();

const OBSERVE: Policy = Policy::builder()
    .enforcement(Enforcement::Observe)
    .build_const();

const NO_SESSIONS: &str = "this store keeps no sessions";
const NO_SEQUENCES: &str = "this store keeps no sequences";

fn in_session() -> Envelope {
    let session = SessionNumber {
        id: "s-1".to_owned(),
        number: 0,
        awaited: 0,
    };
    Envelope::builder("7").session(session).build()
}

/// Refused in words that say what to do, and by nobody but the executor.
fn assert_refused<T: std::fmt::Debug>(
    ended: &Execution<T, Failed>,
    store: &Plain,
    runs: &AtomicU32,
    words: &str,
) {
    let Execution::StoreUnavailable {
        error: StoreError::Refused(why),
    } = ended
    else {
        panic!("{ended:?}");
    };
    let why = why.to_string();
    assert!(
        why.contains(words) && why.contains("use a store that does"),
        "{why}"
    );
    assert_eq!(store.store.claims.load(SeqCst), 0, "the store was asked");
    assert_eq!(runs.load(SeqCst), 0, "the handler ran");
}

async fn handled<M>(mut message: Prepared<Read<M>>, words: &str)
where
    M: RunsOn<Plain>,
    Read<M>: Handler<AtomicU32, Mode = M, Message = u64, Output = u64, Error = Failed>,
{
    let (store, runs) = (plain(), AtomicU32::new(0));
    let executor = Executor::new(store.clone());
    // Others are at work, so that a group is worth it.
    let (_others, _) = executor.concurrency.enter("meters");
    // Whatever is refused is refused again.
    for _ in 0..2 {
        let ended = executor.handle(&mut message, &runs).await;
        assert_refused(&ended, &store, &runs, words);
    }
}

/// In a session and in a sequence.
async fn in_each<M>(policy: &Policy)
where
    M: RunsOn<Plain>,
    Read<M>: Handler<AtomicU32, Mode = M, Message = u64, Output = u64, Error = Failed>,
{
    let envelopes = [
        (in_session(), NO_SESSIONS),
        (Envelope::new("7"), NO_SEQUENCES),
    ];
    for (envelope, words) in envelopes {
        let message = Prepared::<Read<M>>::new(envelope, policy).expect("it is well formed");
        handled(message, words).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leased_message_of_what_the_store_does_not_keep_is_refused() {
    in_each::<Leased>(&Policy::DEFAULT).await;
}

#[tokio::test(start_paused = true)]
async fn an_atomic_message_of_what_the_store_does_not_keep_is_refused() {
    in_each::<Atomic<Blank>>(&Policy::DEFAULT).await;
}

#[tokio::test(start_paused = true)]
async fn a_grouped_message_of_what_the_store_does_not_keep_is_refused() {
    in_each::<Grouped<Blank, 8>>(&Policy::DEFAULT).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_recorded_by_its_table_of_what_the_store_does_not_keep_is_refused() {
    in_each::<RecordedBy<Blank>>(&Policy::DEFAULT).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_may_fail_open_of_what_the_store_does_not_keep_is_refused() {
    in_each::<Leased>(&FAIL_OPEN).await;
}

#[tokio::test(start_paused = true)]
async fn an_observed_message_of_what_the_store_does_not_keep_is_refused() {
    in_each::<Leased>(&OBSERVE).await;
}

#[tokio::test(start_paused = true)]
async fn a_number_to_give_up_in_what_the_store_does_not_keep_is_refused() {
    let envelope = Envelope::builder("?").header("x-number", "3");
    let message = Prepared::<Read<Leased>>::withdrawn(envelope.build(), &Policy::DEFAULT);
    handled(message.expect("its envelope tells its place"), NO_SEQUENCES).await;
}

#[tokio::test(start_paused = true)]
async fn work_of_what_the_store_does_not_keep_is_refused() {
    let session = SessionPlace::new(SessionKey::from(key()), 0, 0);
    let sequence = SequencePlace::new(SequenceKey::from(key()), 0);
    let requests = [
        (ClaimRequest::in_session(session, &OBSERVE), NO_SESSIONS),
        (ClaimRequest::in_sequence(sequence, &OBSERVE), NO_SEQUENCES),
    ];
    for (request, words) in requests {
        let (store, runs) = (plain(), AtomicU32::new(0));
        let work = async |_: Attempt| {
            runs.fetch_add(1, SeqCst);
            Ok(())
        };
        let executor = Executor::new(store.clone());
        let ended = executor.execute_request(&request, &OBSERVE, work).await;
        assert_refused(&ended, &store, &runs, words);
    }
}
