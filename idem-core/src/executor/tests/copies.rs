//! Copies that wait in this process for what handles their message here.

use super::{
    busy::Busy,
    charge::{self, Act, Charge},
    doubles::Blank,
    *,
};
use crate::{
    handler::{Atomic, Grouped, Leased, Mode},
    stores::MemoryStore,
};

/// How long a charge takes.
const WORK: Duration = Duration::from_secs(5);

/// Takes its time, and succeeds if the amount is not 0.
struct Slow;

impl Act for Slow {
    async fn act(&self, amount: u32, _: Attempt) -> Result<u32, Failed> {
        sleep(WORK).await;
        match amount {
            0 => Err(Failed::retry("nothing to charge")),
            amount => Ok(amount),
        }
    }
}

fn message(body: &'static str) -> Prepared<Charge<Leased>> {
    charge::message(body, &Policy::DEFAULT)
}

/// Handles a message, and, a second later, its copy. Says how the copy ends when it is handled again,
/// how long it had to wait until then, and how many claims there were.
async fn copy_of(
    body: &'static str,
    mut copy: Prepared<Charge<Leased>>,
) -> (Execution<u32, Failed>, Duration, u64) {
    let (executor, store) = executor();
    let mut message = message(body);
    let conflict = async {
        sleep(Duration::from_secs(1)).await;
        let ended = executor.handle(&mut copy, &Slow).await;
        assert_ended(&ended, "conflict");
        let waits_since = tokio::time::Instant::now();
        copy.holder_ended().await;
        let waited = waits_since.elapsed();
        (executor.handle(&mut copy, &Slow).await, waited)
    };
    let (_, (ended, waited)) = tokio::join!(executor.handle(&mut message, &Slow), conflict);
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
    assert_ended(&ended, "key-reused");
    assert_eq!(claims, 3);
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_not_answered_by_a_completion() {
    let (ended, _, claims) = copy_of("7", message("7").replay(true)).await;
    assert_ended(&ended, "duplicate");
    assert_eq!(claims, 3);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_what_failed_asks_again() {
    let (ended, _, claims) = copy_of("0", message("0")).await;
    assert_ended(&ended, "conflict");
    assert_eq!(claims, 3);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_ended_before_its_copy_began_to_wait_is_not_missed() {
    let (executor, _) = executor();
    let (mut first, mut copy) = (message("7"), message("7"));
    let conflict = async {
        sleep(Duration::from_secs(1)).await;
        executor.handle(&mut copy, &Slow).await;
    };
    tokio::join!(executor.handle(&mut first, &Slow), conflict);
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
        executor.handle(&mut copy, &Slow).await;
        copy.holder_ended().await;
        assert_eq!(started.elapsed(), Duration::from_secs(5) + WORK);
        assert!(copy.is_answered());
    };
    tokio::join!(executor.handle(&mut first, &Slow), conflict);
}

/// Handles an atomic message, and its copy.
async fn atomic_copy<M>()
where
    M: RunsOn<Busy> + for<'a> Mode<Lent<'a> = &'a mut Blank> + Send + Sync + 'static,
{
    let busy = Busy::new(&MemoryStore::new(), WORK);
    let executor = Executor::new(busy.claiming_ahead().committing_groups());
    let [mut first, mut copy] = [(); 2].map(|()| charge::message::<M>("7", &Policy::DEFAULT));
    let runs = AtomicU32::default();
    let (_others, _) = executor.concurrency.enter("orders");
    let conflict = async {
        sleep(Duration::from_secs(1)).await;
        let ended = executor.handle(&mut copy, &runs).await;
        assert_ended(&ended, "conflict");
        copy.holder_ended().await;
        assert!(copy.is_answered());
        let ended = executor.handle(&mut copy, &runs).await;
        assert_ended(&ended, "duplicate");
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
