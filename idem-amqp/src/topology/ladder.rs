//! The retry ladder's exchanges and queues, shared by all workers of a vhost. Frozen from the first
//! release, names and arguments: workers of several versions declare them, and messages wait there.
//!
//! ```text
//! publish ── idem.retry.5s ── idem.retry.5s ─ after 5 s ─ idem.return ── the origin queue
//!            (fanout)         (queue)                     (direct) └── idem.unrouted ── idem.unrouted
//!                                                         without one  (fanout)         (queue)
//! ```
// docs/decisions/0015

use std::time::Duration;

use idem_core::settlement::Ladder;
use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use super::{Step, UNLIMITED, explain, milliseconds, text, typed};
use crate::wire::ladder::RETURN;
use crate::{
    error::TopologyError,
    topology::Queue,
    wire::{QueueType, ladder::rung_name},
};

/// What `idem.return` has no queue for goes here, and is out of everybody's way: at-least-once
/// dead-lettering would keep it on its rung, before the others.
const UNROUTED: &str = "idem.unrouted";

/// Declares the way back, then the rungs. What is refused is explained for the sake of `origin`.
pub(super) async fn declare(
    channel: &Channel,
    ladder: &Ladder,
    origin: &Queue,
) -> Result<(), TopologyError> {
    let objects = Objects { channel, origin };
    objects.declare_return().await?;
    for rung in ladder.rungs() {
        let name = rung_name(*rung);
        let none = FieldTable::default();
        objects.exchange(&name, ExchangeKind::Fanout, none).await?;
        objects.queue(&name, rung_arguments(*rung)).await?;
        objects.bind(&name, &name, "").await?;
    }
    Ok(())
}

/// Lets the messages of `origin`, which is there, find their way back.
pub(super) async fn bind_origin(channel: &Channel, origin: &Queue) -> Result<(), TopologyError> {
    let objects = Objects { channel, origin };
    objects.bind(origin.name(), RETURN, origin.name()).await
}

/// Binds `origin`, which is there, to the exchanges whose messages it is to get.
pub(super) async fn bind_to_exchanges(
    channel: &Channel,
    origin: &Queue,
) -> Result<(), TopologyError> {
    let objects = Objects { channel, origin };
    for binding in origin.bindings() {
        let (exchange, key) = (&binding.exchange, &binding.routing_key);
        objects.bind(origin.name(), exchange, key).await?;
    }
    Ok(())
}

/// Checks that an exchange exists which somebody else declares.
pub(super) async fn find_exchange(
    channel: &Channel,
    name: &str,
    origin: &Queue,
) -> Result<(), TopologyError> {
    let options = ExchangeDeclareOptions {
        passive: true,
        ..ExchangeDeclareOptions::default()
    };
    // The kind does not matter to who only looks.
    let (kind, none) = (ExchangeKind::Direct, FieldTable::default());
    let found = channel.exchange_declare(name.into(), kind, options, none);
    let found = found.await;
    found.map_err(|source| explain(Step::Exchange(name), origin, source))
}

/// Declares the way back alone.
pub(super) async fn declare_way_back(
    channel: &Channel,
    origin: &Queue,
) -> Result<(), TopologyError> {
    Objects { channel, origin }.declare_return().await?;
    bind_origin(channel, origin).await
}

struct Objects<'a> {
    channel: &'a Channel,
    origin: &'a Queue,
}

impl Objects<'_> {
    async fn declare_return(&self) -> Result<(), TopologyError> {
        let none = FieldTable::default();
        self.exchange(UNROUTED, ExchangeKind::Fanout, none).await?;
        self.queue(UNROUTED, unrouted_arguments()).await?;
        self.bind(UNROUTED, UNROUTED, "").await?;
        let arguments = return_arguments();
        self.exchange(RETURN, ExchangeKind::Direct, arguments).await
    }

    async fn exchange(
        &self,
        name: &str,
        kind: ExchangeKind,
        arguments: FieldTable,
    ) -> Result<(), TopologyError> {
        let options = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let channel = self.channel;
        let declared = channel.exchange_declare(name.into(), kind, options, arguments);
        let declared = declared.await;
        declared.map_err(|source| explain(Step::Exchange(name), self.origin, source))
    }

    async fn queue(&self, name: &str, arguments: FieldTable) -> Result<(), TopologyError> {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declared = self
            .channel
            .queue_declare(name.into(), options, arguments)
            .await;
        let declared = declared.map(drop);
        declared.map_err(|source| explain(Step::Queue(name), self.origin, source))
    }

    async fn bind(&self, queue: &str, to: &str, key: &str) -> Result<(), TopologyError> {
        let bound = self.channel.queue_bind(
            queue.into(),
            to.into(),
            key.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        let bound = bound.await;
        bound.map_err(|source| explain(Step::Bind(queue), self.origin, source))
    }
}

/// A quorum queue whatever the type of the queues it serves, because the broker hands nothing over
/// without a confirm from there: at least once, unless the overflow is another one.
fn rung_arguments(rung: Duration) -> FieldTable {
    let mut table = typed(QueueType::Quorum);
    table.insert("x-message-ttl".into(), milliseconds(rung));
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
    use super::{super::tests::shown, *};

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
