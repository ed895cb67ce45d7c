//! Handlers that take longer than the broker waits for an acknowledgement.
//!
//! Up to 4.2 the broker closes the channel, and everything on it comes back. 4.3 cancels the consumer of a quorum
//! queue and leaves the channel open; for classic queues it knows no such timeout.

use std::{sync::Arc, time::Duration};

use idem_amqp::{MemoryStore, QueueType, Worker, executor::ExecutionKind as Kind, worker::Health};
use idem_servers::{RabbitMq, rabbitmq::Version};
use idem_tests::{
    bed::Bed,
    queue_type::under_test,
    script::{Script, charge},
    servers::off_thread,
};
use tokio::time::timeout;

/// The broker waits for a second, and looks five times a second; by default half an hour and each minute.
const IMPATIENT: &str = "application:set_env(rabbit, consumer_timeout, 1000), \
    application:set_env(rabbit, channel_tick_interval, 200), \
    application:set_env(rabbit, quorum_tick_interval, 200).";

/// A handler takes longer than the broker's consumer timeout.
///
/// - does: consumes on a new channel; the message comes back, and waits for the running attempt
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_handler_that_takes_longer_than_the_broker_waits_is_run_once() {
    let broker = Arc::new(off_thread(RabbitMq::start).await);
    let told = Arc::clone(&broker);
    off_thread(move || told.rabbitmqctl(["eval", IMPATIENT])).await;
    let bed = Bed::on(&broker);
    let (script, gate) = Script::slow();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<charge>(bed.queue()));
    bed.until_consumed(bed.name(), 1).await;
    bed.order("slow").await;
    script.calls.count("it runs", 1).await;
    let taken_back = worker.until("the broker takes it back", |health| !health.is_ready());
    if broker.version() >= Version::new(4, 3) && under_test() == QueueType::Classic {
        let taken_back = timeout(Duration::from_secs(3), taken_back).await;
        assert!(taken_back.is_err(), "4.3 has no timeout for classic queues");
    } else {
        taken_back.await;
    }
    worker.until("it consumes again", Health::is_ready).await;
    bed.order("other").await;
    worker.ended(Kind::Executed, 1).await;

    gate.add_permits(1);
    bed.until_settled().await;
    script.assert_effects(["other", "slow"]);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}
