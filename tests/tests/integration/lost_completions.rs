//! The answer to a completion is lost, and another PostgreSQL takes over before anybody can ask again.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use idem_amqp::{
    PostgresStore, Worker,
    executor::{ExecutionKind as Kind, RunsOn},
    handler::Handler,
    operator::OperatorStore,
};
use idem_tests::{
    bed::Bed,
    interfered::{Call, Fate, Interfered},
    journal::eventually,
    ledger::Ledger,
    postgres_pair::PostgresPair,
    script::{Script, charge, charge_on_postgres},
};

/// What the standby has of the completion when it takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standby {
    HasIt,
    /// It has what was committed before the handler ran: the claim, if that is a commit of its own.
    LacksIt,
}

/// The answer to the first completion is lost, and the store cannot be asked until the fail-over. Which attempts were
/// there of the message, and how often is it charged on the server that has taken over?
async fn completed_and_lost<H>(standby: Standby) -> (Vec<u32>, usize)
where
    H: Handler<Script>,
    H::Mode: RunsOn<Interfered<PostgresStore>>,
{
    let (bed, pair) = (Bed::new().await, Arc::new(PostgresPair::start().await));
    let ledger = Ledger::of(&pair.store().await).await;
    let away = Arc::new(AtomicBool::new(false));
    let store = ledger.store().open_postgres().await;
    let store = losing_the_first_completion(store, Arc::clone(&away));
    let (lags, servers) = (
        AtomicBool::new(standby == Standby::LacksIt),
        Arc::clone(&pair),
    );
    let script = Script::new(move |_| {
        let lagging = lags.swap(false, SeqCst).then(|| Arc::clone(&servers));
        async move {
            if let Some(pair) = lagging {
                pair.catch_up().await;
                pair.fall_behind().await;
            }
            Ok(())
        }
    });
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<H>(bed.queue()));
    bed.order("a").await;

    until_completed(&ledger.store().open_postgres().await).await;
    if standby == Standby::HasIt {
        pair.catch_up().await;
    }
    assert!(worker.settled.entries().is_empty(), "it was answered");
    pair.fail_over().await;
    away.store(false, SeqCst);
    worker.ended(Kind::Executed, 1).await;
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_eq!(balance.of(Kind::Executed), 1, "{balance}");
    bed.assert_nothing_stuck().await;
    let charges = ledger.charges_per_order().await;
    (
        script.attempts(),
        charges.get("a").copied().unwrap_or_default(),
    )
}

/// The store is away once it has done the first completion.
fn losing_the_first_completion(
    store: PostgresStore,
    away: Arc<AtomicBool>,
) -> Interfered<PostgresStore> {
    Interfered::new(store, move |call, number| {
        if (call, number) == (Call::Complete, 1) {
            away.store(true, SeqCst);
            return Fate::LoseAnswer;
        }
        if away.load(SeqCst) {
            Fate::Refuse
        } else {
            Fate::Pass
        }
    })
}

async fn until_completed(store: &PostgresStore) {
    eventually("the completion is done", async || {
        let scopes = store.counts().await.map_err(|error| error.to_string())?;
        match scopes.iter().map(|scope| scope.completed).sum::<u64>() {
            1 => Ok(()),
            keys => Err(format!("{keys} completed keys")),
        }
    })
    .await;
}

/// The store's answer to a completion is lost, and a standby of PostgreSQL that has the completion takes over.
///
/// - does: asks the new server, which knows the key as completed by this attempt, and acknowledges the message
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_commit_that_postgres_did_not_answer_before_its_fail_over_is_found_on_the_standby_that_has_it()
 {
    let ended = completed_and_lost::<charge_on_postgres>(Standby::HasIt).await;
    assert_eq!(ended, (vec![1], 1));
}

/// Shares the promise of
/// `lost_completions::a_commit_that_postgres_did_not_answer_before_its_fail_over_is_found_on_the_standby_that_has_it`.
#[tokio::test]
async fn a_completion_that_postgres_did_not_answer_before_its_fail_over_is_found_on_the_standby_that_has_it()
 {
    let (attempts, _) = completed_and_lost::<charge>(Standby::HasIt).await;
    assert_eq!(attempts, [1]);
}

/// The store's answer to a completion is lost, and a standby of PostgreSQL that lacks the completion takes over.
///
/// - does: atomic: finds nothing of the attempt, and runs the message again; leased: finds its claim, and completes it
///   again
/// - atomic: once: the new server has nothing of the first attempt
/// - leased: once
#[tokio::test]
async fn a_commit_that_postgres_did_not_answer_and_its_standby_lacks_is_run_again() {
    let (attempts, charges) = completed_and_lost::<charge_on_postgres>(Standby::LacksIt).await;
    assert_eq!((attempts.len(), charges), (2, 1));
}

/// Shares the promise of `lost_completions::a_commit_that_postgres_did_not_answer_and_its_standby_lacks_is_run_again`.
#[tokio::test]
async fn a_completion_that_postgres_did_not_answer_and_its_standby_lacks_is_done_again() {
    let (attempts, _) = completed_and_lost::<charge>(Standby::LacksIt).await;
    assert_eq!(attempts, [1]);
}
