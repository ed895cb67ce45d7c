//! The retry ladder's exchanges and queues, shared by all workers of a vhost. Frozen from the first
//! release, names and arguments: workers of several versions declare them, and messages wait there.
//!
//! ```text
//! publish ── idem.retry.5s ── idem.retry.5s ─ after 5 s ─ idem.return ── the origin queue
//!            (fanout)         (queue)                     (direct) └── idem.unrouted ── idem.unrouted
//!                                                         without one  (fanout)         (queue)
//! ```

use std::time::Duration;

use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use super::{Broken, UNLIMITED, text, typed};
use crate::{
    ladder::{Ladder, rung_name},
    queue::QueueType,
};

/// Where rungs dead-letter to. Each origin queue is bound to it by its own name, which is the
/// routing key that a message keeps on its rung.
const RETURN: &str = "idem.return";

/// What `idem.return` has no queue for goes here, and is out of everybody's way: at-least-once
/// dead-lettering would keep it on its rung, before the others.
const UNROUTED: &str = "idem.unrouted";

/// Declares the way back, then the rungs.
pub(super) async fn declare(channel: &Channel, ladder: &Ladder) -> Result<(), Broken> {
    exchange(channel, UNROUTED, ExchangeKind::Fanout, FieldTable::default()).await?;
    queue(channel, UNROUTED, unrouted_arguments()).await?;
    bind(channel, UNROUTED, UNROUTED, "").await?;
    exchange(channel, RETURN, ExchangeKind::Direct, return_arguments()).await?;
    for rung in ladder.rungs() {
        let name = rung_name(*rung);
        exchange(channel, &name, ExchangeKind::Fanout, FieldTable::default()).await?;
        queue(channel, &name, rung_arguments(*rung)).await?;
        bind(channel, &name, &name, "").await?;
    }
    Ok(())
}

/// Lets the queue's messages find their way back.
pub(super) async fn bind_origin(channel: &Channel, queue: &str) -> Result<(), Broken> {
    bind(channel, queue, RETURN, queue).await
}

async fn exchange(
    channel: &Channel,
    name: &str,
    kind: ExchangeKind,
    arguments: FieldTable,
) -> Result<(), Broken> {
    let options = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let declared = channel.exchange_declare(name.into(), kind, options, arguments);
    declared.await.map_err(|source| Broken::of(name, source))
}

async fn queue(channel: &Channel, name: &str, arguments: FieldTable) -> Result<(), Broken> {
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let declared = channel.queue_declare(name.into(), options, arguments).await;
    declared.map(drop).map_err(|source| Broken::of(name, source))
}

async fn bind(channel: &Channel, queue: &str, to: &str, key: &str) -> Result<(), Broken> {
    let bound = channel.queue_bind(
        queue.into(),
        to.into(),
        key.into(),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    bound.await.map_err(|source| Broken::of(queue, source))
}

/// A quorum queue whatever the type of the queues it serves, because the broker hands nothing over
/// without a confirm from there: at least once, unless the overflow is another one.
fn rung_arguments(rung: Duration) -> FieldTable {
    let mut table = typed(QueueType::Quorum);
    let delay = i64::try_from(rung.as_millis()).expect("a day at most");
    table.insert("x-message-ttl".into(), AMQPValue::LongLongInt(delay));
    table.insert("x-dead-letter-exchange".into(), text(RETURN));
    table.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    table.insert("x-overflow".into(), text("reject-publish"));
    table
}

fn return_arguments() -> FieldTable {
    let mut table = FieldTable::default();
    table.insert("alternate-exchange".into(), text(UNROUTED));
    table
}

fn unrouted_arguments() -> FieldTable {
    let mut table = typed(QueueType::Quorum);
    table.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(UNLIMITED));
    table
}

#[cfg(test)]
mod tests {
    use super::{super::shown, *};

    #[test]
    fn the_arguments_of_the_ladder_stay_as_they_were_released() {
        assert_eq!(
            shown(&rung_arguments(Duration::from_mins(5))),
            "x-dead-letter-exchange=idem.return x-dead-letter-strategy=at-least-once \
             x-message-ttl=300000 x-overflow=reject-publish x-queue-type=quorum"
        );
        assert_eq!(
            shown(&return_arguments()),
            "alternate-exchange=idem.unrouted"
        );
        assert_eq!(
            shown(&unrouted_arguments()),
            "x-delivery-limit=1000000000 x-queue-type=quorum"
        );
    }
}
