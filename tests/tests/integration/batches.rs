//! Handlers of several messages at once.

use std::sync::atomic::Ordering::SeqCst;

use idem_amqp::{Failed, executor::ExecutionKind as Kind};
use idem_tests::{
    batches_on_each_store,
    bed::{Bed, dead},
    cell::Cell,
    interfered::{Call as Asked, Fate, Interfered},
    journal::eventually,
    ledger::Ledger,
    manner::Manner,
    process::{Crash, Event, Gate, Mode, Process, Settings},
    requester::Requester,
    running::assert_balance,
    script::{Order, Script},
    store_at::Product::{self, Postgres, Redis, Sqlite},
};
use serde_json::json;

use crate::replies::order;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

const IDS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

/// Publishes orders before there is a worker, so that they come together.
async fn publish(bed: &Bed, ids: &[&str]) {
    for id in ids {
        bed.order(id).await;
    }
}

/// Several messages wait.
///
/// - does: calls the handler with several at once, acknowledges each
/// - atomic: once each
/// - leased: once each
async fn messages_that_wait_share_a_call_and_are_acknowledged<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    publish(&bed, &IDS).await;
    let script = Script::succeeding();
    let worker = cell.charging(&bed, &script);
    worker.ended(Kind::Executed, 9).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 9)]);
    assert!(script.largest_batch() > 1, "{:?}", script.batches.entries());
    assert!(
        script.largest_batch() <= 8,
        "{:?}",
        script.batches.entries()
    );
    cell.assert_effects(&script, IDS).await;
    bed.assert_nothing_stuck().await;
}

/// Copies of a message come with it, before its batch has run.
///
/// - does: calls the handler with one of them, acknowledges the others after it
/// - atomic: once
/// - leased: once
async fn a_copy_is_not_in_the_batch_of_its_original<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    publish(&bed, &["a", "b", "b", "c", "b", "c", "d"]).await;
    let script = Script::succeeding();
    let worker = cell.charging(&bed, &script);
    worker.ended(Kind::Executed, 4).await;
    worker.ended(Kind::Duplicate, 3).await;
    let ends = [(Kind::Executed, 4), (Kind::Duplicate, 3)];
    assert_balance(&worker.stop().await, ends);
    assert!(script.largest_batch() > 1, "{:?}", script.batches.entries());
    cell.assert_effects(&script, ["a", "b", "c", "d"]).await;
    bed.assert_nothing_stuck().await;
}

/// One message of a batch fails the call for all of them.
///
/// - does: calls again with each half, until it is alone; dead-letters it; the others succeed
/// - atomic: once each, nothing of what failed
/// - leased: once each, unless a call has done something before it failed
async fn a_message_that_fails_the_call_for_all_is_dead_lettered_alone<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    publish(&bed, &["a", "b", "c", "d", "poison", "f", "g", "h", "i"]).await;
    let script = Script::succeeding();
    let worker = cell.charging(&bed, &script);
    worker.ended(Kind::Executed, 8).await;
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "rejected");
    let ends = [(Kind::Executed, 8), (Kind::Rejected, 1)];
    assert_balance(&worker.stop().await, ends);
    let batches = script.batches.entries();
    let mut with_it = batches.iter().filter(|ids| ids.contains(&"poison".into()));
    assert!(with_it.clone().any(|ids| ids.len() > 1), "{batches:?}");
    assert_eq!(with_it.next_back().map(Vec::len), Some(1), "{batches:?}");
    let others = IDS.into_iter().filter(|id| *id != "e");
    cell.assert_effects(&script, others).await;
    bed.assert_nothing_stuck().await;
}

/// The handler fails some messages of a batch by their places.
///
/// - does: attempts them again, or dead-letters them, as if they had been alone; calls once with the others
/// - atomic: once each, nothing of what failed
/// - leased: once each, nothing of what failed
async fn messages_that_are_failed_by_their_places_cost_the_others_no_call<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    publish(&bed, &IDS).await;
    let script = Script::new(async |call| match (&*call.id, call.attempt) {
        ("c", 1) => Err(Failed::retry("not yet")),
        ("d", _) => Err(Failed::rejected("nobody wants it")),
        _ => Ok(()),
    });
    let worker = cell.charging(&bed, &script);
    worker.ended(Kind::Executed, 8).await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    let ends = [(Kind::Executed, 8), (Kind::Failed, 1), (Kind::Rejected, 1)];
    assert_balance(&worker.stop().await, ends);
    assert!(script.largest_batch() > 1, "{:?}", script.batches.entries());
    let calls = script.calls.entries();
    assert_eq!(calls.len(), 10, "only `c` is called with again: {calls:?}");
    let others = IDS.into_iter().filter(|id| *id != "d");
    cell.assert_effects(&script, others).await;
    bed.assert_nothing_stuck().await;
}

/// The handler finds in its own rows that some messages of a batch were done before, and fails them so by their places.
///
/// - does: acknowledges these as duplicates, and completes their keys: their copies do not run; calls once with the
///   others
/// - atomic: once each, nothing of what was found
/// - leased: once each, nothing of what was found
async fn members_that_their_handler_finds_done_are_duplicates<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    publish(&bed, &IDS).await;
    let script = Script::new(async |call| match &*call.id {
        "c" | "d" => Err(Failed::done_before()),
        _ => Ok(()),
    });
    let worker = cell.charging(&bed, &script);
    worker.ended(Kind::Executed, 7).await;
    worker.ended(Kind::Duplicate, 2).await;
    publish(&bed, &["c", "d"]).await;
    worker.ended(Kind::Duplicate, 4).await;
    let ends = [(Kind::Executed, 7), (Kind::Duplicate, 4)];
    assert_balance(&worker.stop().await, ends);
    assert!(script.largest_batch() > 1, "{:?}", script.batches.entries());
    assert_eq!(script.calls.entries().len(), 9);
    let others = IDS.into_iter().filter(|id| !["c", "d"].contains(id));
    cell.assert_effects(&script, others).await;
    assert!(bed.drain(&dead(bed.name())).await.is_empty());
    bed.assert_nothing_stuck().await;
}

/// The store is away when a batch ends.
///
/// - does: settles nothing, asks until the store tells, goes on
/// - atomic: once each; what was not committed is done again
/// - leased: once each, repeats the completions
async fn a_batch_that_ends_while_the_store_is_away_is_settled_when_it_is_back<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (store, away) = Interfered::switched(cell.store());
    publish(&bed, &["a", "b", "slow", "c", "d", "e"]).await;
    let (script, gate) = Script::slow();
    let worker = C::charging_by(&bed, store.clone(), &script);
    let slow = |calls: &[idem_tests::script::Call]| calls.iter().any(|call| call.id == "slow");
    script.calls.until("the batch runs", slow).await;
    // Not in the batch: the first of an atomic handler has nobody to wait for.
    let others = 6 - script.largest_batch();
    worker.ended(Kind::Executed, others).await;

    let before = store.count(Asked::Complete);
    away.store(true, SeqCst);
    // An atomic one is called again.
    gate.add_permits(2);
    eventually("the store was asked in vain", async || {
        let asked = store.count(Asked::Complete) - before;
        if asked > 0 { Ok(()) } else { Err(asked) }
    })
    .await;
    assert_eq!(worker.settled.entries().len(), others);
    away.store(false, SeqCst);
    worker.ended(Kind::Executed, 6).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 6)]);
    let all = ["a", "b", "slow", "c", "d", "e"];
    cell.assert_effects(&script, all).await;
    bed.assert_nothing_stuck().await;
}

/// The answer to the completion of a batch is lost.
///
/// - does: asks what became of each message
/// - atomic: once each
/// - leased: once each
async fn a_batch_whose_completion_is_not_answered_is_acknowledged_without_another_run<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let store = cell.interfered(|call, number| match (call, number) {
        (Asked::Complete, 1..=2) => Fate::LoseAnswer,
        _ => Fate::Pass,
    });
    publish(&bed, &IDS).await;
    let script = Script::succeeding();
    let worker = C::charging_by(&bed, store, &script);
    worker.ended(Kind::Executed, 9).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 9)]);
    assert!(script.largest_batch() > 1, "{:?}", script.batches.entries());
    assert_eq!(script.calls.entries().len(), 9);
    cell.assert_effects(&script, IDS).await;
    bed.assert_nothing_stuck().await;
}

/// The worker is told to stop in the middle of a batch, while others wait for the next one.
///
/// - does: lets the batch end, acknowledges it; returns those that wait
/// - atomic: once each
/// - leased: once each
async fn a_worker_that_stops_lets_its_batches_end_and_returns_what_waits<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let ids: Vec<_> = (0..28).map(|number| format!("o-{number}")).collect();
    for id in &ids {
        bed.order(id).await;
    }
    let (script, gate) = Script::waiting(|_| true);
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(bed.queue().prefetch(32)));
    let two = |batches: &[Vec<String>]| batches.iter().filter(|ids| ids.len() > 1).count() == 2;
    script.batches.until("two batches run", two).await;
    let health = worker.health().clone();
    let drains = async {
        eventually("the worker drains", async || match health.to_string() {
            draining if draining == "draining" => Ok(()),
            seen => Err(seen),
        })
        .await;
        gate.add_permits(2 * ids.len());
    };
    let (balance, ()) = tokio::join!(worker.stop(), drains);
    let started = script.calls.entries().len();
    assert!((2..=17).contains(&started), "{started} were started");
    assert_eq!(balance.of(Kind::Executed), started as u64, "{balance}");
    let left = ids.len() - started;
    bed.until_waiting(left.try_into().unwrap()).await;

    let worker = cell.charging(&bed, &script);
    worker.ended(Kind::Executed, left).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, left as u64)]);
    cell.assert_effects(&script, &ids).await;
    bed.assert_nothing_stuck().await;
}

/// The broker sends fewer messages ahead than a batch may have.
///
/// - does: calls with as many as there are, when `batch_wait` is over
/// - atomic: once each
/// - leased: once each
async fn a_batch_that_can_never_fill_runs_all_the_same<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    publish(&bed, &["a", "b", "c", "d", "e"]).await;
    let script = Script::succeeding();
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(bed.queue().prefetch(3)));
    worker.ended(Kind::Executed, 5).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 5)]);
    assert!((2..=3).contains(&script.largest_batch()));
    cell.assert_effects(&script, ["a", "b", "c", "d", "e"])
        .await;
    bed.assert_nothing_stuck().await;
}

/// Requests are in one batch.
///
/// - does: sends each its own reply, then acknowledges it
/// - atomic: once each
/// - leased: once each
async fn each_request_of_a_batch_has_its_own_reply<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let requester = Requester::on(&bed).await;
    let ids = ["a", "b", "c", "d"];
    for id in ids {
        requester.ask(bed.name(), &order(id), id).await;
    }
    let script = Script::new(async |call| match &*call.id {
        "c" => Err(Failed::rejected("nobody wants it")),
        _ => Ok(()),
    });
    let worker = cell.charging(&bed, &script);
    for _ in ids {
        let reply = requester.reply().await;
        let refusal = reply.refusal();
        match reply.correlation() {
            "c" => assert_eq!(refusal.as_deref(), Some("rejected")),
            id => assert_eq!((refusal, reply.json()), (None, json!(id))),
        }
    }
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 3), (Kind::Refused, 1)]);
    assert_eq!(balance.replies().sent, 4);
    assert!(script.largest_batch() > 1, "{:?}", script.batches.entries());
    cell.assert_effects(&script, ["a", "b", "d"]).await;
    bed.assert_nothing_stuck().await;
}

/// What came of a worker that died in the middle of a batch, and of the one after it.
struct Killed {
    /// The orders that the batch had.
    batch: Vec<String>,
    /// Those of which the first worker has told that they were charged.
    told: Vec<String>,
    /// How often each order was charged.
    charges: Vec<(String, usize)>,
}

/// A worker dies in the middle of a batch; another one comes.
async fn kill_in_a_batch(store: Product, mode: Mode) -> Killed {
    let (bed, ledger) = (Bed::new().await, Ledger::on(store).await);
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|it| it.mode = mode);
    let gate = ledger.file("gate");
    let gated = settings.with(|settings| {
        settings.gate = Some(Gate {
            file: gate.clone(),
            blocking: false,
        });
    });
    let first = Process::start(LEDGER_WORKER, &gated);
    // Both calls that may be under way are at the gate, so what comes now waits for the next one.
    for (started, order) in [(1, "a"), (2, "b")] {
        bed.order(order).await;
        let begun = |events: &[Event]| started_orders(events) == started;
        first.events.until("a call is at the gate", begun).await;
    }
    bed.order("c").await;
    bed.json(&Order::new("killer").behaving(Manner::Kills))
        .await;
    publish(&bed, &["d", "e"]).await;
    ledger.store().until_recorded(6).await;
    std::fs::write(&gate, []).unwrap();
    let events = first.events.clone();
    let all_told = |events: &[Event]| killed_batch(events).is_some();
    events
        .until("the batch of the killer begins", all_told)
        .await;
    first.died().await;
    let events = events.entries();
    let batch = killed_batch(&events).unwrap();
    assert!(batch.len() > 1, "{batch:?}");

    let second = Process::start(LEDGER_WORKER, &settings);
    bed.until_settled().await;
    second.stop().await;
    bed.assert_nothing_stuck().await;
    Killed {
        batch,
        told: events.iter().filter_map(told).collect(),
        charges: ledger.charges_per_order().await.into_iter().collect(),
    }
}

/// The order, if this tells that it was charged.
fn told(event: &Event) -> Option<String> {
    match event {
        Event::Ended { key, kind, .. } if kind == "executed" => {
            let (_, order) = key.as_ref()?.rsplit_once(':')?;
            Some(order.to_owned())
        }
        _ => None,
    }
}

fn started_orders(events: &[Event]) -> usize {
    let started = |event: &&Event| matches!(event, Event::Started { .. });
    events.iter().filter(started).count()
}

/// The orders of the batch with the killer, when all were told.
fn killed_batch(events: &[Event]) -> Option<Vec<String>> {
    let mut batch = (0, Vec::new());
    for event in events {
        match event {
            Event::Batch { messages } => batch = (*messages, Vec::new()),
            Event::Started { order_id, .. } => batch.1.push(order_id.clone()),
            _ => {}
        }
        let (messages, ids) = &batch;
        if ids.len() == *messages && ids.iter().any(|id| id == "killer") {
            return Some(ids.clone());
        }
    }
    None
}

fn once_each() -> Vec<(String, usize)> {
    let ids = ["a", "b", "c", "d", "e", "killer"];
    ids.map(|id| (id.to_owned(), 1)).into()
}

/// The worker dies in the middle of a batch.
///
/// - does: lets another worker run each message when its lease has run out, by itself
/// - atomic: once each
/// - leased: twice each, in doubt
#[tokio::test]
async fn an_atomic_worker_on_postgres_killed_in_the_middle_of_a_batch_has_done_nothing_of_it() {
    let killed = kill_in_a_batch(Postgres, Mode::Batched).await;
    assert_eq!(killed.charges, once_each());
}

/// Shares the promise of
/// `batches::an_atomic_worker_on_postgres_killed_in_the_middle_of_a_batch_has_done_nothing_of_it`.
#[tokio::test]
async fn an_atomic_worker_on_sqlite_killed_in_the_middle_of_a_batch_has_done_nothing_of_it() {
    let killed = kill_in_a_batch(Sqlite, Mode::Batched).await;
    assert_eq!(killed.charges, once_each());
}

async fn assert_doubts_a_batch_that_was_killed(store: Product) {
    let killed = kill_in_a_batch(store, Mode::LeasedBatched).await;
    let charged = killed.charges.iter().map(|(id, _)| (id.clone(), 1));
    assert_eq!(charged.collect::<Vec<_>>(), once_each());
    for (id, times) in &killed.charges {
        let expected = match (killed.batch.contains(id), killed.told.contains(id)) {
            (true, _) => 2..=2,
            (false, true) => 1..=1,
            // One that was charged beside the batch, if its completion was lost with the process.
            (false, false) => 1..=2,
        };
        assert!(expected.contains(times), "{id}: {:?}", killed.charges);
    }
}

/// Shares the promise of
/// `batches::an_atomic_worker_on_postgres_killed_in_the_middle_of_a_batch_has_done_nothing_of_it`.
#[tokio::test]
async fn what_a_leased_batch_on_sqlite_did_before_its_worker_was_killed_is_done_again() {
    assert_doubts_a_batch_that_was_killed(Sqlite).await;
}

/// Shares the promise of
/// `batches::an_atomic_worker_on_postgres_killed_in_the_middle_of_a_batch_has_done_nothing_of_it`.
#[tokio::test]
async fn what_a_leased_batch_on_postgres_did_before_its_worker_was_killed_is_done_again() {
    assert_doubts_a_batch_that_was_killed(Postgres).await;
}

/// Shares the promise of
/// `batches::an_atomic_worker_on_postgres_killed_in_the_middle_of_a_batch_has_done_nothing_of_it`.
#[tokio::test]
async fn what_a_leased_batch_on_redis_did_before_its_worker_was_killed_is_done_again() {
    assert_doubts_a_batch_that_was_killed(Redis).await;
}

/// A worker dies after the commit of a batch, before the acks; another one comes.
async fn charges_after_a_kill_behind_the_commit(store: Product) {
    let (bed, ledger) = (Bed::new().await, Ledger::on(store).await);
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = Mode::Batched;
        settings.prefetch = 16;
    });
    publish(&bed, &IDS).await;
    // The first message is alone: the second commit is that of a batch.
    let dying = settings.with(|it| it.crash = Some(Crash::AfterCompletion(2)));
    Process::start(LEDGER_WORKER, &dying).died().await;
    let committed = ledger.count().await;
    assert!(committed > 2, "{committed} charges");

    let second = Process::start(LEDGER_WORKER, &settings);
    bed.until_settled().await;
    second.stop().await;
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), IDS.len());
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}

/// The worker dies after a batch's commit, before its acks.
///
/// - does: acknowledges the redeliveries
/// - atomic: once each
#[tokio::test]
async fn an_atomic_worker_on_postgres_killed_behind_the_commit_of_a_batch_is_not_repeated() {
    charges_after_a_kill_behind_the_commit(Postgres).await;
}

/// Shares the promise of `batches::an_atomic_worker_on_postgres_killed_behind_the_commit_of_a_batch_is_not_repeated`.
#[tokio::test]
async fn an_atomic_worker_on_sqlite_killed_behind_the_commit_of_a_batch_is_not_repeated() {
    charges_after_a_kill_behind_the_commit(Sqlite).await;
}

batches_on_each_store! {
    messages_that_wait_share_a_call_and_are_acknowledged,
    a_copy_is_not_in_the_batch_of_its_original,
    a_message_that_fails_the_call_for_all_is_dead_lettered_alone,
    messages_that_are_failed_by_their_places_cost_the_others_no_call,
    members_that_their_handler_finds_done_are_duplicates,
    a_batch_that_ends_while_the_store_is_away_is_settled_when_it_is_back,
    a_batch_whose_completion_is_not_answered_is_acknowledged_without_another_run,
    a_worker_that_stops_lets_its_batches_end_and_returns_what_waits,
    a_batch_that_can_never_fill_runs_all_the_same,
    each_request_of_a_batch_has_its_own_reply,
}
