//! What is counted of a worker, as `docs/operations.md` promises it.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use futures_util::future::join_all;
use idem_amqp::{
    Failed, MemoryStore, Policy, Publication, Publisher, Worker,
    dead_letters::Selection,
    executor::ExecutionKind as Kind,
    handler::StoreOutage,
    store::Purge,
    worker::{Incident, WorkerStats},
};
use idem_tests::{
    bed::{Bed, QUICK},
    cell::{AtomicBatchesOnSqlite, Cell, LeasedBatchesOnMemory},
    interfered::{Call, Fate, Interfered},
    laddered::laddered,
    metered::Metered,
    proxy::Proxy,
    running::Running,
    script::{Order, Script, charge},
    store_at::StoreAt,
};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::replays::{replayer, until_dead};

pub(crate) const HANDLER: (&str, &str) = ("handler", "orders.charge");

fn worker_on(metered: &Metered, bed: &Bed, store: impl Purge + Clone, script: &Script) -> Running {
    let _recorded = metered.record();
    bed.charging(store, script)
}

/// Each outcome is counted as the worker's balance has it, and together they are the deliveries.
pub(crate) fn assert_conserved(metered: &Metered, balance: &WorkerStats) {
    for (kind, count) in balance.iter() {
        let counted = metered.sum("idem_outcomes_total", &[("outcome", kind.label())]);
        assert_eq!(counted, count, "{kind}: {balance}");
    }
    let outcomes = metered.sum("idem_outcomes_total", &[]);
    assert_eq!(outcomes, metered.sum("idem_deliveries_total", &[]));
    assert_eq!(outcomes, balance.deliveries());
    assert_eq!(outcomes, metered.sum("idem_settlements_total", &[]));
    assert_eq!(metered.sum("idem_in_flight", &[]), 0);
}

/// Order `slow` waits for the test, `bad` is refused the first time, `late` fails the first time.
fn eventful(go_on: &Arc<Semaphore>) -> Script {
    let (go_on, refusals) = (Arc::clone(go_on), Arc::new(Semaphore::new(1)));
    Script::new(move |call| {
        let (go_on, refusals) = (Arc::clone(&go_on), Arc::clone(&refusals));
        async move {
            match (&*call.id, call.attempt) {
                ("slow", _) => go_on.acquire().await?.forget(),
                ("bad", _) => {
                    if let Ok(refusal) = refusals.try_acquire() {
                        refusal.forget();
                        return Err(Failed::rejected("no such customer"));
                    }
                }
                ("late", 1) => return Err(Failed::retry("still down")),
                _ => {}
            }
            Ok(())
        }
    })
}

/// Deliveries end in every way.
///
/// - told: each in exactly one outcome; their sum is the number of deliveries
#[tokio::test]
async fn every_delivery_is_counted_in_exactly_one_outcome() {
    let (bed, metered) = (Bed::with_vhost().await, Metered::default());
    let queue = laddered(bed.queue()).max_waiting(0);
    bed.declare(&queue).await;
    let go_on = Arc::new(Semaphore::new(0));
    let script = eventful(&go_on);
    let worker = {
        let _recorded = metered.record();
        let worker = Worker::builder(MemoryStore::new()).state(script.clone());
        bed.start(worker.consume::<charge>(queue))
    };
    bed.order("slow").await;
    script.calls.count("the handler runs", 1).await;
    bed.order("slow").await;
    worker.ended(Kind::Conflict, 1).await;
    go_on.add_permits(1);
    for id in ["a", "a", "bad", "late"] {
        bed.order(id).await;
    }
    bed.json(&json!({"order": "a"})).await;
    bed.json(&Order::new("")).await;
    bed.json(&Order {
        amount_cents: 5,
        ..Order::new("a")
    })
    .await;
    worker.ended(Kind::Executed, 3).await;
    worker.ended(Kind::Duplicate, 2).await;
    until_dead(&bed, 4).await;
    let rejected = Selection::all().reason("rejected");
    replayer(&bed).replay(&rejected).await.unwrap();
    worker.ended(Kind::Executed, 4).await;

    let balance = worker.stop().await;
    for kind in [
        Kind::Rejected,
        Kind::Undecodable,
        Kind::Keyless,
        Kind::KeyReused,
    ] {
        assert_eq!(balance.of(kind), 1, "{kind}: {balance}");
    }
    assert_eq!(balance.of(Kind::Failed), 1, "{balance}");
    assert_conserved(&metered, &balance);
    let of_queue = [("queue", bed.name()), HANDLER];
    assert_eq!(metered.sum("idem_replays_total", &of_queue), 1);
    assert_eq!(metered.sum("idem_dead_letters_total", &of_queue), 4);
    let retries = metered.sum("idem_settlements_total", &[("settlement", "retry")]);
    let (failed, conflicts) = (balance.of(Kind::Failed), balance.of(Kind::Conflict));
    assert_eq!(retries, failed + conflicts);
    let published = metered.sum("idem_publish_batch_messages_sum", &[]);
    assert_eq!(published, 4 + retries, "dead letters and retries");
    let ended = balance.deliveries();
    assert_eq!(metered.sum("idem_delivery_seconds_count", &of_queue), ended);
    let runs = u64::try_from(script.calls.entries().len()).unwrap();
    assert_eq!(metered.sum("idem_handler_seconds_count", &[HANDLER]), runs);
}

/// Handlers run, and copies wait.
///
/// - told: how many, and how old the oldest claim is
#[tokio::test]
async fn what_runs_and_what_is_held_shows_how_many_and_how_old() {
    let (bed, metered) = (Bed::new().await, Metered::default());
    let go_on = Arc::new(Semaphore::new(0));
    let script = eventful(&go_on);
    let worker = worker_on(&metered, &bed, MemoryStore::new(), &script);
    metered.until("idem_ready", &[], |ready| ready == 1).await;
    bed.order("slow").await;
    bed.order("slow").await;
    metered.until("idem_held", &[], |held| held == 1).await;
    assert_eq!(metered.sum("idem_in_flight", &[]), 2);
    assert_eq!(metered.sum("idem_running", &[]), 1);
    assert_eq!(metered.sum("idem_claims_in_progress", &[HANDLER]), 1);
    let grown = |age| age >= 1;
    metered
        .until("idem_oldest_claim_seconds", &[HANDLER], grown)
        .await;

    go_on.add_permits(1);
    worker.ended(Kind::Duplicate, 1).await;
    assert_conserved(&metered, &worker.stop().await);
    for over in [
        "idem_held",
        "idem_running",
        "idem_claims_in_progress",
        "idem_oldest_claim_seconds",
    ] {
        assert_eq!(metered.sum(over, &[]), 0, "{over}");
    }
    assert_eq!(metered.sum("idem_ready", &[]), 0);
}

/// A lease is lost.
///
/// - told: the loss, and the write that was refused
#[tokio::test]
async fn a_lost_lease_is_counted_and_the_write_that_was_refused() {
    let (bed, metered) = (Bed::new().await, Metered::default());
    let shared = MemoryStore::new();
    let released = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let heard = Arc::clone(&released);
    let deaf = Interfered::new(shared.clone(), move |call, _| match call {
        Call::Extend if !heard.load(SeqCst) => Fate::Refuse,
        _ => Fate::Pass,
    });
    let lease = Policy::builder()
        .lease(Duration::from_millis(400))
        .build()
        .unwrap();
    let queue = bed.queue().prefetch(1).policy(lease);
    let zombie_runs = Script::hanging();
    let zombie = {
        let _recorded = metered.record();
        let worker = Worker::builder(deaf).state(zombie_runs.clone());
        bed.start(worker.consume::<charge>(queue.clone()))
    };
    bed.order("a").await;
    zombie_runs.calls.count("the zombie runs", 1).await;
    let script = Script::succeeding();
    let other = Worker::builder(shared).state(script.clone());
    let other = bed.start(other.consume::<charge>(queue));
    bed.order("a").await;
    other.ended(Kind::Executed, 1).await;
    released.store(true, SeqCst);

    metered
        .until("idem_leases_lost_total", &[HANDLER], |lost| lost == 1)
        .await;
    assert_eq!(
        metered.sum("idem_fenced_writes_total", &[("call", "extend")]),
        1
    );
    assert!(metered.sum("idem_store_errors_total", &[("call", "extend")]) > 0);
    assert_conserved(&metered, &zombie.stop().await);
    other.stop().await;
}

/// A connection is replaced.
///
/// - told: the connection, and the incident
#[tokio::test]
async fn a_connection_that_replaced_another_is_counted_and_why() {
    let (bed, metered) = (Bed::new().await, Metered::default());
    let proxy = Proxy::open(bed.broker().port()).await;
    let worker = {
        let _recorded = metered.record();
        let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
        let worker = worker.consume::<charge>(bed.queue());
        Running::start(worker, bed.url_by(proxy.port(), ""))
    };
    bed.until_consumed(bed.name(), 1).await;
    assert_eq!(metered.sum("idem_connections_total", &[]), 1);
    proxy.cut();
    metered
        .until("idem_connections_total", &[], |made| made == 2)
        .await;
    let broken = [("incident", Incident::ConnectionBroken.label())];
    assert_eq!(metered.sum("idem_incidents_total", &broken), 1);
    assert_conserved(&metered, &worker.stop().await);
}

/// A handler fails open.
///
/// - told: what was done without the store, until the store has been told
#[tokio::test]
async fn what_is_done_without_the_store_is_counted_until_the_store_is_told() {
    let (bed, metered) = (Bed::new().await, Metered::default());
    let (store, away) = Interfered::switched(MemoryStore::new());
    away.store(true, SeqCst);
    let policy = QUICK.to_builder().store_outage(StoreOutage::FailOpen);
    let worker = {
        let _recorded = metered.record();
        let worker = Worker::builder(store).state(Script::succeeding());
        bed.start(worker.consume::<charge>(bed.queue().policy(policy.build().unwrap())))
    };
    bed.order("a").await;
    worker.ended(Kind::Unprotected, 1).await;
    metered
        .until("idem_reports_pending", &[], |pending| pending == 1)
        .await;
    assert!(metered.sum("idem_store_errors_total", &[("call", "claim")]) > 0);
    away.store(false, SeqCst);
    let told = [("report", "told")];
    metered
        .until("idem_reports_total", &told, |told| told == 1)
        .await;
    assert_conserved(&metered, &worker.stop().await);
    assert_eq!(metered.sum("idem_reports_pending", &[]), 0);
}

/// The store is away, and metrics are read.
///
/// - told: that the worker is not ready, and for how long
#[tokio::test]
async fn a_store_that_is_away_makes_the_worker_unready_for_ever_longer() {
    let (bed, metered) = (Bed::new().await, Metered::default());
    let (store, away) = Interfered::switched(MemoryStore::new());
    let worker = worker_on(&metered, &bed, store, &Script::succeeding());
    metered.until("idem_ready", &[], |ready| ready == 1).await;
    away.store(true, SeqCst);
    bed.order("a").await;
    metered
        .until("idem_failing_seconds", &[], |failing| failing >= 1)
        .await;
    assert_eq!(metered.sum("idem_ready", &[]), 0);
    assert_eq!(metered.sum("idem_held", &[]), 1);
    away.store(false, SeqCst);
    worker.ended(Kind::Executed, 1).await;
    metered.until("idem_ready", &[], |ready| ready == 1).await;
    assert_conserved(&metered, &worker.stop().await);
}

/// Messages are published together.
///
/// - told: how many
#[tokio::test]
async fn batches_of_a_publisher_are_counted_with_their_messages() {
    let (bed, metered) = (Bed::new().await, Metered::default());
    let publisher = {
        let _recorded = metered.record();
        Publisher::connect(bed.url()).await.unwrap()
    };
    publisher.declare(bed.queue()).await.unwrap();
    let orders = (0..20).map(async |number| {
        let order = Order::new(&number.to_string());
        let publication = Publication::json(bed.name(), &order);
        publisher.publish(&publication).await.unwrap();
    });
    join_all(orders).await;
    let counted = |of: &str| metered.sum(&format!("idem_publish_batch_messages_{of}"), &[]);
    assert_eq!((counted("sum"), counted("count")), (20, 1), "{metered:?}");
    let alone = Publication::json(bed.name(), &Order::new("alone"));
    publisher.publish(&alone).await.unwrap();
    assert_eq!((counted("sum"), counted("count")), (21, 2), "{metered:?}");
}

/// Calls share a statement.
///
/// - told: how many
#[tokio::test]
async fn batches_of_postgres_are_counted_with_their_calls() {
    let (bed, metered) = (Bed::new().await, Metered::default());
    let store = StoreAt::postgres().await;
    let store = {
        let _recorded = metered.record();
        store.open_postgres().await
    };
    // All that the worker has at once asks while the first is asked for.
    for number in 0..20 {
        bed.order(&number.to_string()).await;
    }
    bed.until_waiting(20).await;
    let worker = worker_on(&metered, &bed, store, &Script::succeeding());
    worker.ended(Kind::Executed, 20).await;
    assert_conserved(&metered, &worker.stop().await);
    let claims = [("store", "postgres"), ("lane", "claims")];
    let statements = metered.sum("idem_store_batch_calls_count", &claims);
    assert!((1..20).contains(&statements), "{statements} statements");
    for (call, lane) in [("claim", "claims"), ("complete", "writes")] {
        let answered = metered.sum("idem_store_seconds_count", &[("call", call)]);
        assert_eq!(answered, 20, "{call}");
        let sent = [("store", "postgres"), ("lane", lane)];
        assert_eq!(
            metered.sum("idem_store_batch_calls_sum", &sent),
            20,
            "{lane}"
        );
    }
}

/// A batch is called, and one of its messages fails the call for all of them.
async fn counts_calls_of_batches<C: Cell>() {
    let (bed, cell, metered) = (Bed::new().await, C::open().await, Metered::default());
    // All wait when the worker begins, so they come together.
    for id in ["a", "b", "poison", "c", "d"] {
        bed.order(id).await;
    }
    bed.until_waiting(5).await;
    let script = Script::succeeding();
    let worker = {
        let _recorded = metered.record();
        cell.charging(&bed, &script)
    };
    let halved = || metered.sum("idem_batches_halved_total", &[HANDLER]);
    let calls = |of: &str| metered.sum(&format!("idem_handler_batch_messages_{of}"), &[HANDLER]);
    let registered = metered.samples();
    let registered = |name: &str| registered.iter().any(|it| it.name == name);
    assert!(registered("idem_batches_halved_total"), "{metered:?}");

    worker.ended(Kind::Executed, 4).await;
    worker.ended(Kind::Rejected, 1).await;
    let together = (calls("sum"), calls("count"));
    bed.order("alone").await;
    worker.ended(Kind::Executed, 5).await;
    let and_alone = (together.0 + 1, together.1 + 1);
    assert_eq!((calls("sum"), calls("count")), and_alone);
    assert_conserved(&metered, &worker.stop().await);
    let batches = script.batches.entries();
    let failed = batches
        .iter()
        .filter(|ids| ids.len() > 1 && ids.iter().any(|id| id == "poison"));
    let failed = failed.count();
    assert!(failed > 0, "{batches:?}");
    let seen = (calls("sum"), calls("count"), halved());
    let messages = batches.iter().map(Vec::len).sum::<usize>();
    let expected = [messages, batches.len(), failed].map(|it| it as u64);
    assert_eq!(seen, expected.into(), "{batches:?}");
    let runs = metered.sum("idem_handler_seconds_count", &[HANDLER]);
    assert_eq!(runs, calls("count"));
}

/// A batch is called, and one of its messages fails the call for all of them.
///
/// - told: how many messages each call has had, and how many calls of several have failed
#[tokio::test]
async fn calls_of_leased_batches_are_counted_with_their_messages_and_those_that_fail() {
    counts_calls_of_batches::<LeasedBatchesOnMemory>().await;
}

/// Shares the promise of
/// `metrics::calls_of_leased_batches_are_counted_with_their_messages_and_those_that_fail`.
#[tokio::test]
async fn calls_of_atomic_batches_are_counted_with_their_messages_and_those_that_fail() {
    counts_calls_of_batches::<AtomicBatchesOnSqlite>().await;
}
