//! Links to the broker that are cut, go silent, or are not there yet.

use std::{sync::Arc, time::Duration};

use idem_amqp::{
    MemoryStore, Publication, PublishError, Publisher, Queue, Worker,
    executor::ExecutionKind as Kind,
    worker::{Health, Incident, WorkerStats},
};
use idem_tests::{
    bed::{Bed, QUICK, dead},
    journal::eventually,
    proxy::Proxy,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
};
use lapin::types::FieldTable;
use tokio::{sync::Semaphore, task::spawn_blocking};

/// A handler that waits until the test lets it go on.
pub(crate) fn waiting() -> (Script, Arc<Semaphore>) {
    Script::waiting(|_| true)
}

fn worker_by(bed: &Bed, url: &str, script: &Script) -> Running {
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    Running::start(worker.consume::<charge>(bed.queue()), url)
}

/// The link is lost in the middle of a handler. The handler goes on, the message comes again.
async fn executed_once_although(lose: impl AsyncFnOnce(&Proxy), query: &str, told: Incident) {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let (script, go_on) = waiting();
    let worker = worker_by(&bed, &bed.url_by(proxy.port(), query), &script);
    bed.order("a").await;
    script.calls.count("the handler runs", 1).await;
    lose(&proxy).await;
    // A second consumer comes while the broker has not noticed the loss of the first, perhaps.
    bed.until_consumed(bed.name(), 1).await;
    bed.order("b").await;
    script
        .calls
        .count("consumed again, by the new link", 2)
        .await;
    go_on.add_permits(2);

    worker.ended(Kind::Executed, 2).await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    // The verdict on the first delivery came after its channel's end.
    let expected = format!("{told}=1 unsettled=1");
    assert_eq!(balance.incidents().to_string(), expected);
    assert_eq!(script.attempts(), [1, 1]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// The link is cut while a handler runs.
///
/// - does: connects again; the handler goes on, the redelivery is a duplicate
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_link_that_is_cut_is_replaced_and_the_running_handler_is_not_repeated() {
    executed_once_although(async |proxy| proxy.cut(), "", Incident::ConnectionBroken).await;
}

/// The worker's link goes silent.
///
/// - does: notices it by the heartbeat and connects again; the handler goes on, the redelivery is a duplicate
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_link_that_goes_silent_is_noticed_by_its_heartbeat() {
    let freeze = async |proxy: &Proxy| proxy.freeze();
    // Twice that is longer than a busy machine may stall a process: a link that works is not given up.
    executed_once_although(freeze, "?heartbeat=6", Incident::HeartbeatMissed).await;
}

/// An operator closes the connection.
///
/// - does: connects again; the handler goes on, the redelivery is a duplicate
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_connection_that_an_operator_closes_is_replaced() {
    let bed = Bed::with_vhost().await;
    let (script, go_on) = waiting();
    let worker = bed.charging(MemoryStore::new(), &script);
    bed.until_consumed(bed.name(), 1).await;
    bed.order("a").await;
    script.calls.count("the handler runs", 1).await;
    let (broker, vhost) = (bed.broker().clone(), bed.vhost().to_owned());
    let close = [
        "close_all_connections".to_owned(),
        "--vhost".into(),
        vhost,
        "by a test".into(),
    ];
    let closed = spawn_blocking(move || broker.rabbitmqctl(close)).await;
    closed.unwrap().unwrap();
    // By a connection that was opened since: the bed may not have noticed yet that its own is closed.
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let order = Publication::json(bed.name(), &Order::new("b"));
    publisher.publish(&order).await.unwrap();
    script.calls.count("consumed again", 2).await;
    go_on.add_permits(2);

    worker.ended(Kind::Executed, 2).await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    assert_eq!(balance.incidents().of(Incident::ConnectionClosed), 1);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// A queue is consumed by two workers of one process, and the link of one is cut.
///
/// - does: handles at each worker what it is given; the other one goes on
/// - atomic: once each
/// - leased: once each
///
/// Two workers of one process are two connections to one queue, with one store: a link that is cut
/// hands its messages to the other.
#[tokio::test]
async fn a_queue_is_consumed_by_several_connections_of_one_process() {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let store = MemoryStore::new();
    let (script, go_on) = waiting();
    let workers = [bed.url_by(proxy.port(), ""), bed.url().to_owned()].map(|url| {
        let worker = Worker::builder(store.clone()).state(script.clone());
        Running::start(worker.consume::<charge>(bed.queue().prefetch(8)), url)
    });
    bed.until_consumed(bed.name(), 2).await;
    let orders: Vec<String> = (0..12).map(|order| format!("o{order}")).collect();
    for order in &orders {
        bed.order(order).await;
    }
    // Neither has room for all.
    script.calls.count("the handlers run", 12).await;
    proxy.cut();
    bed.until_consumed(bed.name(), 2).await;
    for order in &orders {
        bed.order(order).await;
    }
    go_on.add_permits(12);

    bed.until_settled().await;
    let [cut, whole] = workers;
    let balances = [cut.stop().await, whole.stop().await];
    let executed = balances.each_ref().map(|it| it.of(Kind::Executed));
    assert_eq!(executed.iter().sum::<u64>(), 12, "{balances:?}");
    assert!(
        executed.iter().all(|&executed| executed > 0),
        "{executed:?}"
    );
    assert!(
        balances.iter().all(WorkerStats::is_balanced),
        "{balances:?}"
    );
    script.assert_effects(orders.iter().map(String::as_str));
    bed.assert_nothing_stuck().await;
}

/// `basic.ack` of a delivery that there never was, on the first channel.
const ACK_OF_NOTHING: &[u8] = &[
    1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0xCE,
];

/// The broker closes the channel.
///
/// - does: opens another channel; the handler goes on, the redelivery is a duplicate
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_channel_that_the_broker_closes_is_replaced() {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let (script, go_on) = waiting();
    let worker = worker_by(&bed, &bed.url_by(proxy.port(), ""), &script);
    bed.order("a").await;
    script.calls.count("the handler runs", 1).await;
    proxy.say(ACK_OF_NOTHING);
    let closed = |health: &Health| health.incidents().of(Incident::ChannelClosed) == 1;
    worker
        .until("the broker has closed the channel", closed)
        .await;
    worker.until("it consumes again", Health::is_ready).await;
    go_on.add_permits(2);

    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    bed.order("b").await;
    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    let told = balance.incidents().to_string();
    assert_eq!(told, "channel-closed=1 unsettled=1");
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// A handler ends after its channel was replaced by another one.
///
/// - does: settles nothing on the new channel; the redelivery is a duplicate
/// - atomic: once
/// - leased: once
///
/// Tags begin at 1 on each channel: an old one means another delivery on a new channel.
#[tokio::test]
async fn a_verdict_that_comes_after_its_channel_has_ended_settles_no_delivery_of_the_next_one() {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let (script, go_on) = waiting();
    let worker = worker_by(&bed, &bed.url_by(proxy.port(), ""), &script);
    bed.order("a").await;
    go_on.add_permits(1);
    worker.ended(Kind::Executed, 1).await;
    bed.until_settled().await;
    bed.order("b").await;
    script.calls.count("the second delivery runs", 2).await;
    proxy.cut();
    bed.until_consumed(bed.name(), 1).await;
    worker.until("it consumes again", Health::is_ready).await;
    bed.until_waiting(0).await;
    bed.order("c").await;
    script
        .calls
        .count("the second of the next one, too", 3)
        .await;
    go_on.add_permits(1);
    worker.ended(Kind::Executed, 2).await;
    worker.ended(Kind::Duplicate, 1).await;

    let with_consumer = async || {
        let ours = bed.state_of(bed.name()).await;
        ours.map(|state| state.unacked)
    };
    eventually(
        "all but the third are settled",
        async || match with_consumer().await {
            Some(1) => Ok(()),
            seen => Err(seen),
        },
    )
    .await;
    worker.vanish().await;
    bed.until_waiting(1).await;
    for queue in [bed.name().to_owned(), dead(bed.name())] {
        bed.delete(&queue).await;
    }
}

/// A handler ends while there is no link.
///
/// - does: records the completion; the redelivery is a duplicate
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_handler_that_ends_while_there_is_no_link_is_not_repeated() {
    let bed = Bed::new().await;
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let (script, go_on) = waiting();
    let worker = worker_by(&bed, &bed.url_by(proxy.port(), ""), &script);
    bed.order("a").await;
    script.calls.count("the handler runs", 1).await;
    proxy.close().await;
    proxy.cut();
    bed.until_consumed(bed.name(), 0).await;
    go_on.add_permits(1);
    worker.ended(Kind::Executed, 1).await;
    proxy.listen().await;

    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    assert_eq!(script.attempts(), [1]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The broker is away at the start.
///
/// - does: waits for it
#[tokio::test]
async fn a_broker_that_is_away_at_the_start_is_waited_for() {
    let bed = Bed::new().await;
    bed.order("a").await;
    let mut proxy = Proxy::closed(bed.broker().port());
    let script = Script::succeeding();
    let worker = worker_by(&bed, &bed.url_by(proxy.port(), ""), &script);
    // Several refused tries.
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(script.calls.entries().is_empty());
    proxy.listen().await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The worker is told to stop while the broker is away.
///
/// - does: stops without it
#[tokio::test]
async fn a_worker_that_waits_for_its_broker_can_be_stopped() {
    let bed = Bed::new().await;
    let proxy = Proxy::closed(bed.broker().port());
    let worker = worker_by(&bed, &bed.url_by(proxy.port(), ""), &Script::succeeding());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let told = tokio::time::Instant::now();
    assert_balance(&worker.stop().await, []);
    assert!(told.elapsed() < Duration::from_secs(15));
    bed.assert_nothing_stuck().await;
}

/// The worker is told to stop, and its link has gone silent.
///
/// - does: stops without an answer; what it could not settle comes again
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_worker_whose_link_has_gone_silent_can_be_stopped() {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let script = Script::succeeding();
    let worker = worker_by(&bed, &bed.url_by(proxy.port(), ""), &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.until_waiting(0).await;
    proxy.freeze();
    let told = tokio::time::Instant::now();
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert!(
        told.elapsed() < Duration::from_secs(20),
        "{:?}",
        told.elapsed()
    );
    script.assert_effects(["a"]);
}

/// The publisher's link is cut.
///
/// - does: says that the message may have arrived; connects again at the next call
#[tokio::test]
async fn a_publisher_whose_link_was_cut_says_so_and_publishes_by_a_new_one() {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let publisher = Publisher::connect(&bed.url_by(proxy.port(), ""))
        .await
        .unwrap();
    let order = Publication::json(bed.name(), &Order::new("a"));
    publisher.publish(&order).await.unwrap();
    proxy.cut();
    // Whether the loss is seen before or after the message is sent is a matter of luck.
    let mut tries = 1;
    while let Err(error) = publisher.publish(&order).await {
        assert!(matches!(error, PublishError::Unconfirmed(_)), "{error:?}");
        tries += 1;
        assert!(tries < 10, "{error:?}");
    }

    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);
    worker.ended(Kind::Duplicate, 1).await;
    worker.stop().await;
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// Queues are refused for so long that the connection opens no more channels.
///
/// - does: takes another connection, and consumes them when they are back
/// - atomic: once
/// - leased: once
///
/// The AMQP client never opens a channel again under a number whose channel the broker has closed.
#[tokio::test]
async fn queues_that_were_refused_until_no_channel_was_left_are_consumed_when_they_are_back() {
    const CHANNELS: usize = 16;
    let bed = Bed::bare().await;
    let queues: Vec<_> = (0..CHANNELS / 2)
        .map(|number| bed.another(&number.to_string()))
        .collect();
    let declare = async |queue: &str| bed.declare_foreign(queue, FieldTable::default()).await;
    let script = Script::succeeding();
    let mut worker = Worker::builder(MemoryStore::new()).state(script.clone());
    for queue in &queues {
        declare(queue).await;
        declare(&dead(queue)).await;
        worker = worker.consume::<charge>(Queue::existing(queue).policy(QUICK));
    }
    let query = format!("?channel_max={CHANNELS}");
    let worker = Running::start(worker, bed.url_by(bed.broker().port(), &query));
    worker.until("it is ready", Health::is_ready).await;
    for queue in &queues {
        bed.delete(queue).await;
    }
    let used_up = |health: &Health| {
        let refused = health.incidents().of(Incident::QueueRefused);
        let not_opened = health.incidents().of(Incident::ChannelClosed);
        refused >= CHANNELS as u64 / 2 && not_opened >= CHANNELS as u64
    };
    worker.until("no channel can be opened", used_up).await;

    for queue in &queues {
        declare(queue).await;
        bed.order_to(queue, queue).await;
    }
    worker.ended(Kind::Executed, queues.len()).await;
    worker.until("it is ready again", Health::is_ready).await;
    worker.stop().await;
    script.assert_effects(&queues);
    bed.assert_nothing_stuck().await;
}
