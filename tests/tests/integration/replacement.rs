//! Workers that are replaced one after the other while messages keep coming.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use idem_amqp::{Publication, Publisher};
use idem_tests::{
    bed::Bed,
    ledger::Ledger,
    process::{Event, Mode, Process, Settings},
    script::Order,
};
use tokio::task::JoinHandle;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");
const WORKERS: usize = 4;

/// More than wait for a worker at any time are not published.
const BACKLOG: u32 = 200;

/// Publishes orders, a few at a time, until it is told to stop; answers how many.
fn publish(bed: &Arc<Bed>, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let (bed, stop) = (Arc::clone(bed), Arc::clone(stop));
    tokio::spawn(async move {
        let publisher = Publisher::connect(bed.url()).await.unwrap();
        let mut count = 0;
        while !stop.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(40)).await;
            let waiting = bed.waiting(bed.name()).await;
            if waiting.is_some_and(|(messages, _)| messages > BACKLOG) {
                continue;
            }
            let batch = (0..20).map(|number| {
                let order = Order::new(&format!("o-{}", count + number));
                let order = Publication::json(bed.name(), &order);
                let publisher = publisher.clone();
                async move { publisher.publish(&order).await.unwrap() }
            });
            count += futures_util::future::join_all(batch).await.len();
        }
        count
    })
}

/// How many messages ended as duplicates: each is there once, so each of these is one that was
/// executed and came again.
fn repeated(events: &[Event]) -> usize {
    events
        .iter()
        .filter(|event| event.is_end("duplicate"))
        .count()
}

/// Stops a worker; how long it took, and what it said.
async fn replaced(worker: Process) -> (Duration, Vec<Event>) {
    let events = worker.events.clone();
    let told = Instant::now();
    worker.stop().await;
    (told.elapsed(), events.entries())
}

async fn rolling_replacement(classic: bool) {
    let bed = Arc::new(Bed::bare().await);
    let ledger = Ledger::create().await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.classic = classic;
        settings.mode = Mode::Leased;
        settings.prefetch = 64;
        settings.work_ms = 30;
        // Handlers keep their leases on a busy machine, too.
        settings.lease_ms = 20_000;
    });
    bed.declare(&settings.queue()).await;
    let start = || Process::start(LEDGER_WORKER, &settings);
    let mut workers: Vec<_> = (0..WORKERS).map(|_| start()).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let publishing = publish(&bed, &stop);
    for worker in &workers {
        worker.ended("executed", 10).await;
    }
    let mut said = Vec::new();
    let mut drained = Vec::new();
    for _ in 0..WORKERS {
        let (time, events) = replaced(workers.remove(0)).await;
        drained.push(time);
        said.extend(events);
        let next = start();
        next.ended("executed", 10).await;
        workers.push(next);
    }
    stop.store(true, SeqCst);
    let published = publishing.await.unwrap();
    bed.until_settled().await;
    for worker in workers {
        said.extend(replaced(worker).await.1);
    }

    println!("{published} published, times to drain: {drained:?}");
    assert_eq!(repeated(&said), 0, "messages that were executed came again");
    let charges = ledger.charges_per_order().await;
    let expected = (0..published).map(|number| (format!("o-{number}"), 1));
    assert_eq!(charges, expected.collect::<BTreeMap<_, _>>());
    let bed = Arc::into_inner(bed).expect("nobody publishes any more");
    bed.assert_nothing_stuck().await;
}

/// Four workers are replaced one after the other under load.
///
/// - does: each drains; no message that was executed comes again
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn no_executed_message_of_a_quorum_queue_comes_again_when_workers_are_replaced() {
    rolling_replacement(false).await;
}

/// Shares the promise of `replacement::no_executed_message_of_a_quorum_queue_comes_again_when_workers_are_replaced`.
#[tokio::test]
async fn no_executed_message_of_a_classic_queue_comes_again_when_workers_are_replaced() {
    rolling_replacement(true).await;
}
