//! The harness notices: workers that are broken on purpose are found out, and sound ones are not.
//! Sound atomic ones run in `cargo xtask chaos`.

use std::{path::Path, time::Duration};

use idem_amqp::sqlx::{Connection as _, PgConnection};
use idem_tests::{
    chaos::{Chaos, Fault, Mode, Plan, Queues, Report, StoreKind},
    flawed::Flaw,
    ledger::{Charge, Ledger, in_postgres},
    postgres_pair::PostgresPair,
    process::{Crash, Gate, Settings},
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// Less than usual: one of the tests waits for all of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A few seconds of kills, with two workers.
fn kills(store: StoreKind, mode: Mode) -> Plan {
    Plan {
        seed: 5,
        seconds: 5,
        store,
        mode,
        outbox: false,
        queues: Queues::Quorum,
        workers: 2,
        only: vec![Fault::Kill],
    }
}

async fn run(plan: Plan, change: impl FnOnce(&mut Settings) + 'static) -> Report {
    let chaos = Chaos::new(&plan, Path::new(LEDGER_WORKER));
    chaos.with(change).patience(PATIENCE).run().await
}

async fn atomic(change: impl FnOnce(&mut Settings) + 'static) -> Report {
    run(kills(StoreKind::Postgres, Mode::Atomic), change).await
}

async fn leased(change: impl FnOnce(&mut Settings) + 'static) -> Report {
    run(kills(StoreKind::Redis, Mode::Leased), change).await
}

#[tokio::test]
async fn sound_leased_workers_are_clean() {
    let report = leased(|_| {}).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn a_fail_over_loses_what_the_standby_had_not_received_and_the_address_leads_to_it() {
    let pair = PostgresPair::start().await;
    let store = pair.store().await;
    let ledger = Ledger::of(&store).await;
    let charge = |order_id| Charge::new(order_id, 1, "worker");
    let write = async |order_id| {
        let mut db = PgConnection::connect(&store.url).await?;
        in_postgres::write(&mut db, &charge(order_id)).await
    };
    write("received").await.expect("it is written");
    pair.catch_up().await;
    pair.fall_behind().await;
    write("not received").await.expect("it is written");
    let mut open = PgConnection::connect(&store.url).await.expect("a server");
    let primary = pair.primary();
    pair.fail_over().await;

    assert_ne!(pair.primary().port(), primary.port());
    assert!(open.ping().await.is_err(), "the old server is dead");
    assert_eq!(ledger.charges().await, [charge("received")]);
    write("later").await.expect("it is written");
    pair.replace_standby().await;
    pair.commit_on_both().await;
    write("on both").await.expect("it is written");
    pair.fail_over().await;
    let charges = ["received", "later", "on both"].map(charge);
    assert_eq!(ledger.charges().await, charges);
}

async fn is_clean_over_fail_overs(mode: Mode) {
    let plan = Plan {
        seconds: 15,
        only: vec![Fault::FailOver],
        ..kills(StoreKind::Postgres, mode)
    };
    let report = run(plan, |_| {}).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn sound_atomic_workers_are_clean_over_fail_overs() {
    is_clean_over_fail_overs(Mode::Atomic).await;
}

#[tokio::test]
async fn sound_workers_of_groups_are_clean_over_fail_overs() {
    is_clean_over_fail_overs(Mode::Grouped).await;
}

#[tokio::test]
async fn sound_workers_of_batches_are_clean_over_kills_and_fail_overs() {
    let plan = Plan {
        seconds: 15,
        only: vec![Fault::Kill, Fault::FailOver],
        ..kills(StoreKind::Postgres, Mode::Batched)
    };
    let report = run(plan, |_| {}).await;
    assert!(report.is_clean(), "{report}");
    assert!(report.batches() > 20, "{report}");
}

#[tokio::test]
async fn sound_workers_of_leased_batches_are_clean() {
    let report = run(kills(StoreKind::Redis, Mode::LeasedBatched), |_| {}).await;
    assert!(report.is_clean(), "{report}");
    assert!(report.batches() > 10, "{report}");
}

/// What a worker that was killed has committed leaves after half a minute.
const PATIENCE_WITH_EVENTS: Duration = Duration::from_secs(50);

/// Workers that die again and again between a commit and the publish of its event: what is not in the table then is
/// lost.
async fn with_events(store: StoreKind, mode: Mode, flaw: Option<Flaw>) -> Report {
    let plan = Plan {
        outbox: true,
        ..kills(store, mode)
    };
    let chaos = Chaos::new(&plan, Path::new(LEDGER_WORKER)).with(move |worker| {
        worker.crash = Some(Crash::AfterCompletion(10));
        worker.flaw = flaw;
    });
    chaos.patience(PATIENCE_WITH_EVENTS).run().await
}

#[tokio::test]
async fn sound_workers_with_an_outbox_are_clean() {
    let report = with_events(StoreKind::Postgres, Mode::Atomic, None).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn sound_workers_of_batches_with_an_outbox_are_clean() {
    let report = with_events(StoreKind::Sqlite, Mode::Batched, None).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn events_that_are_not_committed_with_their_charges_are_lost() {
    let flaw = Some(Flaw::DropsEvents);
    let report = with_events(StoreKind::Postgres, Mode::Atomic, flaw).await;
    assert!(report.lost() > 0 && !report.is_clean(), "{report}");
}

/// Each process dies in the middle of its work, and with it what it has answered and not committed.
/// When the plan kills them, they may have nothing to do.
fn answers_early_and_dies(worker: &mut Settings) {
    worker.flaw = Some(Flaw::AnswersEarly);
    worker.crash = Some(Crash::AfterClaim(40));
}

#[tokio::test]
async fn an_ack_before_the_commit_of_a_batch_loses() {
    let plan = kills(StoreKind::Postgres, Mode::Batched);
    let report = run(plan, answers_early_and_dies).await;
    assert!(report.lost() > 0 && !report.is_clean(), "{report}");
}

#[tokio::test]
async fn an_ack_before_the_commit_loses() {
    let report = atomic(answers_early_and_dies).await;
    assert!(report.lost() > 0 && !report.is_clean(), "{report}");
}

#[tokio::test]
async fn copies_that_atomic_workers_do_not_recognise_double() {
    let report = atomic(|worker| worker.flaw = Some(Flaw::Forgets)).await;
    assert!(report.doubled() > 0 && !report.is_clean(), "{report}");
}

#[tokio::test]
async fn copies_that_leased_workers_do_not_recognise_double_without_an_excuse() {
    let report = leased(|worker| worker.flaw = Some(Flaw::Forgets)).await;
    assert!(report.doubled() > 0 && !report.is_clean(), "{report}");
}

#[tokio::test]
async fn a_dead_letter_for_a_single_failure_loses() {
    let report = atomic(|worker| worker.max_attempts = 1).await;
    assert!(report.lost() > 0 && !report.is_clean(), "{report}");
}

#[tokio::test]
async fn handlers_that_never_end_are_stuck() {
    let report = atomic(|worker| {
        worker.grace_ms = 500;
        worker.gate = Some(Gate {
            file: worker.ledger.with_file_name("never"),
            blocking: false,
        });
    });
    let report = report.await;
    assert!(report.stuck() > 0 && !report.is_clean(), "{report}");
    assert_eq!(report.lost(), 0, "what is on its way is not lost: {report}");
}
