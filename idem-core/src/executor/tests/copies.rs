//! Copies that wait in this process for what handles their message here.

use super::{busy::Busy, doubles::Blank, *};
use crate::{
    handler::{Atomic, Context, DecodeError, Grouped, Leased, Mode, Operation, Rejection},
    message::{Envelope, KeyError},
    stores::MemoryStore,
};

/// How long a charge takes.
const WORK: Duration = Duration::from_secs(5);

/// Takes its time, and succeeds if the amount is not 0.
struct Charge;

impl Operation for Charge {
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = Leased;
    const SCOPE: &'static str = "orders";

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(_: &u32, _: &Envelope) -> Result<Key, KeyError> {
        Ok(key())
    }
}

impl Handler<()> for Charge {
    fn call<'a>(
        amount: u32,
        _: &'a Context<'a, ()>,
        (): (),
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        Ok(async move {
            sleep(WORK).await;
            match amount {
                0 => Err(Failed::retry("nothing to charge")),
                amount => Ok(amount),
            }
        })
    }
}

fn message(body: &'static str) -> Prepared<Charge> {
    Prepared::new(Envelope::new(body), &Policy::DEFAULT).unwrap()
}

/// Handles a message, and, a second later, its copy. Says how the copy ends when it is handled again,
/// how long it had to wait until then, and how many claims there were.
async fn copy_of(
    body: &'static str,
    mut copy: Prepared<Charge>,
) -> (Execution<u32, Failed>, Duration, u64) {
    let (executor, store) = executor();
    let mut message = message(body);
    let conflict = async {
        sleep(Duration::from_secs(1)).await;
        let ended = executor.handle(&mut copy, &()).await;
        assert!(matches!(ended, Execution::Conflict { .. }), "{ended:?}");
        let waits_since = tokio::time::Instant::now();
        copy.holder_ended().await;
        let waited = waits_since.elapsed();
        (executor.handle(&mut copy, &()).await, waited)
    };
    let (_, (ended, waited)) = tokio::join!(executor.handle(&mut message, &()), conflict);
    (ended, waited, store.count(Call::Claim))
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_answered_by_the_completion_it_waited_for() {
    let (ended, waited, claims) = copy_of("7", message("7")).await;
    let Execution::Duplicate { outcome, remaining } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(outcome.as_bytes(), b"7");
    assert_eq!(remaining, Policy::DEFAULT.retention());
    assert_eq!(waited, Duration::from_secs(4));
    assert_eq!(claims, 2, "each asked once");
}

#[tokio::test(start_paused = true)]
async fn other_content_is_not_answered_by_a_completion() {
    let (ended, _, claims) = copy_of("7", message(" 7")).await;
    assert!(matches!(ended, Execution::KeyReused), "{ended:?}");
    assert_eq!(claims, 3);
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_not_answered_by_a_completion() {
    let (ended, _, claims) = copy_of("7", message("7").replay(true)).await;
    assert!(matches!(ended, Execution::Duplicate { .. }), "{ended:?}");
    assert_eq!(claims, 3);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_what_failed_asks_again() {
    let (ended, _, claims) = copy_of("0", message("0")).await;
    assert!(matches!(ended, Execution::Conflict { .. }), "{ended:?}");
    assert_eq!(claims, 3);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_ended_before_its_copy_began_to_wait_is_not_missed() {
    let (executor, _) = executor();
    let (mut first, mut copy) = (message("7"), message("7"));
    let conflict = async {
        sleep(Duration::from_secs(1)).await;
        executor.handle(&mut copy, &()).await;
    };
    tokio::join!(executor.handle(&mut first, &()), conflict);
    let ended_at = tokio::time::Instant::now();
    copy.holder_ended().await;
    assert_eq!(ended_at.elapsed(), Duration::ZERO);
    assert!(copy.is_answered());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_has_not_heard_of_its_claim_yet_is_waited_for() {
    let (executor, store) = executor();
    store.script(Call::Claim, [Fault::AnswerLate]);
    let (mut first, mut copy) = (message("7"), message("7"));
    let started = tokio::time::Instant::now();
    let conflict = async {
        sleep(Duration::from_secs(1)).await;
        executor.handle(&mut copy, &()).await;
        copy.holder_ended().await;
        assert_eq!(started.elapsed(), Duration::from_secs(5) + WORK);
        assert!(copy.is_answered());
    };
    tokio::join!(executor.handle(&mut first, &()), conflict);
}

/// Handles an atomic message, and its copy.
async fn atomic_copy<M>()
where
    M: RunsOn<Busy> + for<'a> Mode<Lent<'a> = &'a mut Blank> + Send + Sync + 'static,
{
    let busy = Busy::new(&MemoryStore::new(), WORK);
    let executor = Executor::new(busy.claiming_ahead().committing_groups());
    let message =
        || Prepared::<super::busy::Charge<M>>::new(Envelope::new("7"), &Policy::DEFAULT).unwrap();
    let (mut first, mut copy, runs) = (message(), message(), AtomicU32::default());
    let (_others, _) = executor.concurrency.enter("orders");
    let conflict = async {
        sleep(Duration::from_secs(1)).await;
        let ended = executor.handle(&mut copy, &runs).await;
        assert!(matches!(ended, Execution::Conflict { .. }), "{ended:?}");
        copy.holder_ended().await;
        assert!(copy.is_answered());
        let ended = executor.handle(&mut copy, &runs).await;
        assert!(matches!(ended, Execution::Duplicate { .. }), "{ended:?}");
    };
    tokio::join!(executor.handle(&mut first, &runs), conflict);
    assert_eq!(runs.into_inner(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_answered_by_the_commit_it_waited_for() {
    atomic_copy::<Atomic<Blank>>().await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_answered_by_the_commit_of_the_group_it_waited_for() {
    atomic_copy::<Grouped<Blank, 8>>().await;
}
