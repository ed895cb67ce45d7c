//! Consumers that people write by hand.
//!
//! Each takes exactly as many deliveries as there are messages, then cancels its consumer and closes
//! its channel and its connection. What it measures ends there: the broker answers a cancel after
//! every acknowledgement that was sent before it, on the way through channel and queue.

mod amqprs;
mod intake;
mod together;

use std::time::Instant;

use bench_orders::{Options, Order, Tally};
use lapin::{message::Delivery, options::BasicAckOptions};
use tokio_util::task::TaskTracker;

use self::intake::Intake;
pub(crate) use self::{amqprs::with_amqprs, intake::Acks, together::together};
use crate::{Result, naive::Handle};

/// The loop that everyone writes first.
pub(crate) async fn one_by_one(options: &Options, acks: Acks, tally: &Tally) -> Result<Instant> {
    let mut intake = Intake::open(options, acks).await?;
    for _ in 0..options.place.messages {
        let delivery = intake.next().await?;
        let order = Order::decode(&delivery.data)?;
        tally.work().await;
        tally.execute(&order);
        if matches!(acks, Acks::Each) {
            delivery.ack(BasicAckOptions::default()).await?;
        }
    }
    intake.close().await
}

/// As many messages at once as the prefetch allows.
pub(crate) async fn task_each(
    options: &Options,
    handler: impl Handle,
    tally: &Tally,
) -> Result<Instant> {
    let mut intake = Intake::open(options, Acks::Each).await?;
    let tasks = TaskTracker::new();
    for _ in 0..options.place.messages {
        let delivery = intake.next().await?;
        let (handler, tally) = (handler.clone(), tally.clone());
        tasks.spawn(async move {
            let outcome = handle(&delivery, &handler, &tally).await;
            tally.note(outcome);
        });
    }
    tasks.close();
    tasks.wait().await;
    intake.close().await
}

async fn handle(delivery: &Delivery, handler: &impl Handle, tally: &Tally) -> Result<()> {
    let order = Order::decode(&delivery.data)?;
    handler.handle(&order, tally).await?;
    delivery.ack(BasicAckOptions::default()).await?;
    tally.done(&order.id);
    Ok(())
}
