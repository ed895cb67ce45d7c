//! Windows that are narrower than what a worker has at once.

use std::time::Duration;

use idem_amqp::{Ladder, MemoryStore, Worker, executor::ExecutionKind as Kind, store::Purge};
use idem_tests::{
    bed::Bed,
    interfered::{Call, Fate, Interfered},
    readings::{send_stamped, store_narrowly},
    script::Script,
    store_at::StoreAt,
};
use tokio::time::{Instant, sleep};

/// How long a handler takes: in a window of 8, a thousand of them take 0.6 s.
const WORK: Duration = Duration::from_millis(5);

/// The stream has begun, and all others are there when the worker comes. Hardly any of them goes to the
/// ladder, whose first rung takes longer than hundreds of handlers, and the store is not asked in vain all
/// the time.
async fn flows<S: Purge + Clone>(store: S, all: u64) {
    let bed = Bed::with_vhost().await;
    let queue = bed.queue().prefetch(64).ladder(Ladder::default());
    let script = Script::new(async |_| {
        sleep(WORK).await;
        Ok(())
    });
    let store = Interfered::new(store, |_, _| Fate::Pass);
    let start = || {
        let worker = Worker::builder(store.clone()).state(script.clone());
        bed.start(worker.consume::<store_narrowly>(queue.clone()))
    };
    let worker = start();
    bed.until_consumed(bed.name(), 1).await;
    send_stamped(&bed, [0]).await;
    worker.ended(Kind::Executed, 1).await;
    worker.stop().await;
    send_stamped(&bed, 1..all).await;

    let begun = Instant::now();
    let worker = start();
    let count = usize::try_from(all).unwrap();
    script.effects.count("all have their effect", count).await;
    let (elapsed, claims) = (begun.elapsed(), store.count(Call::Claim));
    bed.until_settled().await;
    let balance = worker.stop().await;
    let told = format!("{elapsed:?}, {claims} claims, {balance}");
    println!("{told}");
    assert!(balance.of(Kind::Ahead) < all / 20, "{told}");
    assert!(claims < 5 * all, "{told}");
    script.assert_effects((0..all).map(|number| number.to_string()));
    bed.assert_nothing_stuck().await;
}

/// The window is narrower than the number of messages that a worker has at once.
///
/// - does: lets messages wait in the worker until the window reaches their numbers, and wakes them: the stream flows,
///   and none goes to the ladder
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_stream_through_a_window_narrower_than_the_prefetch_flows() {
    flows(MemoryStore::new(), 2000).await;
}

/// Shares the promise of `narrow_windows::a_stream_through_a_window_narrower_than_the_prefetch_flows`.
#[tokio::test]
async fn a_stream_through_a_window_narrower_than_the_prefetch_flows_on_postgres() {
    let store = StoreAt::postgres().await.open_postgres().await;
    flows(store, 500).await;
}
