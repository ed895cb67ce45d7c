//! Workers that die, as processes of their own killed with SIGKILL at a chosen point.

use idem_tests::{
    bed::Bed,
    ledger::{Charge, Ledger},
    process::{Crash, Event, Mode, Process, Settings},
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// A worker dies at this point of a message; another one comes. What was charged in the end?
async fn charges_after(crash: Crash, mode: Mode, ends: &[(&str, u64)]) -> Vec<Charge> {
    let bed = Bed::new().await;
    let ledger = Ledger::create().await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger.path()).with(|settings| {
        settings.mode = mode;
        settings.name = "second".into();
    });
    let dying = settings.with(|settings| {
        settings.name = "first".into();
        settings.crash = Some(crash);
    });
    let first = Process::start(LEDGER_WORKER, &dying);
    bed.order("a").await;
    first.died().await;

    let second = Process::start(LEDGER_WORKER, &settings);
    second.ended(ends[0].0, 1).await;
    let balance = second.stop().await;
    let ends: Vec<_> = ends
        .iter()
        .map(|(kind, count)| ((*kind).to_owned(), *count))
        .collect();
    assert_eq!(balance, ends);
    bed.assert_nothing_stuck().await;
    ledger.charges().await
}

fn charge(attempt: u32, worker: &str) -> Charge {
    Charge {
        order_id: "a".into(),
        attempt,
        worker: worker.into(),
    }
}

#[tokio::test]
async fn an_atomic_worker_killed_after_its_claim_is_replaced() {
    let charges = charges_after(Crash::AfterClaim(1), Mode::Atomic, &[("executed", 1)]).await;
    assert_eq!(charges, [charge(2, "second")]);
}

#[tokio::test]
async fn a_leased_worker_killed_after_its_claim_is_replaced() {
    let charges = charges_after(Crash::AfterClaim(1), Mode::Leased, &[("executed", 1)]).await;
    assert_eq!(charges, [charge(2, "second")]);
}

#[tokio::test]
async fn an_atomic_worker_killed_after_its_work_has_done_nothing() {
    let crash = Crash::BeforeCompletion(1);
    let charges = charges_after(crash, Mode::Atomic, &[("executed", 1)]).await;
    assert_eq!(charges, [charge(2, "second")]);
}

#[tokio::test]
async fn a_leased_worker_killed_after_its_work_has_its_work_done_again() {
    let crash = Crash::BeforeCompletion(1);
    let charges = charges_after(crash, Mode::Leased, &[("executed", 1)]).await;
    assert_eq!(charges, [charge(1, "first"), charge(2, "second")]);
}

#[tokio::test]
async fn an_atomic_worker_killed_between_commit_and_ack_is_not_repeated() {
    let crash = Crash::AfterCompletion(1);
    let charges = charges_after(crash, Mode::Atomic, &[("duplicate", 1)]).await;
    assert_eq!(charges, [charge(1, "first")]);
}

#[tokio::test]
async fn a_leased_worker_killed_between_completion_and_ack_is_not_repeated() {
    let crash = Crash::AfterCompletion(1);
    let charges = charges_after(crash, Mode::Leased, &[("duplicate", 1)]).await;
    assert_eq!(charges, [charge(1, "first")]);
}

#[tokio::test]
async fn the_attempt_after_a_killed_one_is_told_of_the_doubt() {
    let bed = Bed::new().await;
    let ledger = Ledger::create().await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger.path())
        .with(|settings| settings.mode = Mode::Leased);
    let dying = settings.with(|settings| settings.crash = Some(Crash::InHandler));
    let first = Process::start(LEDGER_WORKER, &dying);
    bed.order("a").await;
    first.died().await;

    let second = Process::start(LEDGER_WORKER, &settings);
    second.ended("executed", 1).await;
    let in_doubt = |event: &Event| {
        matches!(
            event,
            Event::Started {
                in_doubt: true,
                attempt: 2,
                ..
            }
        )
    };
    second
        .said("the second attempt is in doubt", in_doubt)
        .await;
    second.stop().await;
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_message_in_doubt_after_a_kill_is_quarantined_if_its_policy_says_so() {
    let bed = Bed::new().await;
    let ledger = Ledger::create().await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger.path()).with(|settings| {
        settings.mode = Mode::Leased;
        settings.quarantine = true;
    });
    let dying = settings.with(|settings| settings.crash = Some(Crash::InHandler));
    let first = Process::start(LEDGER_WORKER, &dying);
    bed.order("a").await;
    first.died().await;

    let second = Process::start(LEDGER_WORKER, &settings);
    assert_eq!(bed.dead_letter().await.reason(), "in-doubt");
    second.ended("in_doubt", 1).await;
    assert_eq!(second.stop().await, [("in_doubt".into(), 1)]);
    assert_eq!(ledger.count().await, 1);
    bed.assert_nothing_stuck().await;
}

/// A message that kills every worker: after its attempts it is dead-lettered by one that survives.
async fn poison(mode: Mode) -> usize {
    let bed = Bed::new().await;
    let ledger = Ledger::create().await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger.path()).with(|settings| {
        settings.mode = mode;
        settings.max_attempts = 3;
        settings.lease_ms = 600;
        settings.crash = Some(Crash::InHandler);
    });
    bed.order("poison").await;
    for _ in 0..3 {
        Process::start(LEDGER_WORKER, &settings).died().await;
    }
    let survivor = Process::start(LEDGER_WORKER, &settings);
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "exhausted");
    assert_eq!(letter.attempt(), "3");
    assert!(
        letter.error().contains("without a word"),
        "{}",
        letter.error()
    );
    survivor.ended("exhausted", 1).await;
    assert_eq!(survivor.stop().await, [("exhausted".into(), 1)]);
    bed.assert_nothing_stuck().await;
    ledger.count().await
}

#[tokio::test]
async fn a_message_that_kills_atomic_workers_is_dead_lettered_after_its_attempts() {
    assert_eq!(poison(Mode::Atomic).await, 0);
}

#[tokio::test]
async fn a_message_that_kills_leased_workers_is_dead_lettered_after_its_attempts() {
    assert_eq!(poison(Mode::Leased).await, 3);
}
