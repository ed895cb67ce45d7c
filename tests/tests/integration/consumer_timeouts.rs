//! Handlers that take longer than the broker waits for an acknowledgement.
//!
//! Up to 4.2 the broker closes the channel, and everything on it comes back. 4.3 cancels the consumer of a quorum
//! queue and leaves the channel open; for classic queues and streams it knows no such timeout.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use idem_amqp::{
    Failed, MemoryStore, OnFailure, QueueType, Worker, executor::ExecutionKind as Kind,
    worker::Health,
};
use idem_servers::{RabbitMq, rabbitmq::Version};
use idem_tests::{
    bed::Bed,
    queue_type::under_test,
    script::{Script, charge},
    servers::off_thread,
};
use tokio::time::{sleep, timeout};

use crate::streams::{stream, stream_arguments};

/// The broker waits for a second, and looks five times a second; by default half an hour and each minute.
const IMPATIENT: &str = "application:set_env(rabbit, consumer_timeout, 1000), \
    application:set_env(rabbit, channel_tick_interval, 200), \
    application:set_env(rabbit, quorum_tick_interval, 200).";

async fn impatient() -> Arc<RabbitMq> {
    let broker = Arc::new(off_thread(RabbitMq::start).await);
    let told = Arc::clone(&broker);
    off_thread(move || told.rabbitmqctl(["eval", IMPATIENT])).await;
    broker
}

/// A handler takes longer than the broker's consumer timeout.
///
/// - does: consumes on a new channel; the message comes back, and waits for the running attempt
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_handler_that_takes_longer_than_the_broker_waits_is_run_once() {
    let broker = impatient().await;
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

/// A stream stops at a message, for longer than the broker's consumer timeout.
///
/// - does: reads it again from that message on, on a new channel, where the broker is before 4.3; starts nothing behind
///   it, where one handler runs at a time
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_stream_that_stops_is_read_again_when_the_broker_has_waited_for_long() {
    let broker = impatient().await;
    let (bed, store) = (Bed::on(&broker), MemoryStore::new());
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let script = Script::new(move |call| {
        let refuses = call.id == "bad" && !is_mended.load(SeqCst);
        async move {
            if refuses {
                return Err(Failed::rejected("the gateway does not know the currency"));
            }
            Ok(())
        }
    });
    let stream = stream(&bed).on_failure(OnFailure::Stop).concurrency(1);
    bed.declare_foreign(bed.name(), stream_arguments(&[])).await;
    for id in ["1", "bad", "2", "3"] {
        bed.order(id).await;
    }
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume_stream::<charge>(stream));
    script.calls.count("it runs", 2).await;
    let is_read_again = broker.version() < Version::new(4, 3);
    if is_read_again {
        script.calls.count("it runs on later channels", 4).await;
    } else {
        sleep(Duration::from_secs(3)).await;
        let calls = script.calls.entries().len();
        assert_eq!(calls, 2, "4.3 has no timeout for streams");
    }
    script.assert_effects(["1"]);

    mended.store(true, SeqCst);
    if !is_read_again {
        // It is tried again each minute.
        sleep(Duration::from_secs(50)).await;
    }
    script.effects.count("it goes on", 4).await;
    script.assert_effects(["1", "bad", "2", "3"]);
    worker.stop().await;
}
