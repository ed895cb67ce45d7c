//! Declares queues, and checks those that somebody else declares.

use std::{future::pending, time::Duration};

use lapin::{
    Channel, Connection,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable, LongString},
};
use tokio::time::sleep;

use crate::{
    error::{TopologyError, TopologyProblem},
    wire::{QueueType, retries::Retries},
};

mod answer;
mod cure;
mod ladder;
mod mismatch;
mod permissions;
pub(crate) mod queue;
mod super_stream;

pub(crate) use answer::{Value, difference};
pub(crate) use mismatch::{Step, explain};
pub(crate) use queue::{Binding, DeadLetterTarget};
pub use queue::{Partitions, Queue};

/// RabbitMQ 4 drops a message that was returned 20 times, unless its queue says otherwise; one that
/// is there to be looked at is returned by everybody who does.
const UNLIMITED: i64 = 1_000_000_000;

/// Declares the queue, its dead-letter queue and its retry ladder, or checks that the queues exist. Binds the queue to
/// its exchanges. Of a stream, its handler's queues as well.
pub(crate) async fn establish(channel: &Channel, queue: &Queue) -> Result<(), TopologyError> {
    let Some(stream) = queue.as_stream() else {
        return establish_queue(channel, queue).await;
    };
    // First: what fails must have somewhere to go.
    if let Some(failures) = queue.failures() {
        establish_queue(channel, &failures).await?;
    }
    let partition = queue.partition().filter(|_| stream.is_ours);
    if let Some(partition) = partition {
        super_stream::declare_exchange(channel, partition, queue).await?;
    }
    let arguments = stream.is_ours.then(|| stream.arguments());
    establish_one(channel, queue.name(), arguments, queue).await?;
    if let Some(partition) = partition {
        super_stream::bind(channel, partition, queue).await?;
    }
    ladder::bind_to_exchanges(channel, queue).await
}

async fn establish_queue(channel: &Channel, queue: &Queue) -> Result<(), TopologyError> {
    // First: if somebody else has declared it, that is said, and nothing is left behind.
    establish_itself(channel, queue).await?;
    if let Retries::Ladder(ladder) = queue.retries() {
        ladder::declare(channel, ladder, queue).await?;
    }
    establish_control(channel, queue).await?;
    establish_dead_letters(channel, queue).await?;
    if queue.has_ladder() {
        ladder::bind_origin(channel, queue).await?;
    }
    ladder::bind_to_exchanges(channel, queue).await
}

/// Declares the queue of registrations and heartbeats, or checks that it exists, if the queue serves
/// sessions.
pub(crate) async fn establish_control(
    channel: &Channel,
    queue: &Queue,
) -> Result<(), TopologyError> {
    let Some(control) = queue.control_queue() else {
        return Ok(());
    };
    let arguments = queue.declared().map(control_arguments);
    establish_one(channel, &control, arguments, queue).await
}

async fn establish_itself(channel: &Channel, queue: &Queue) -> Result<(), TopologyError> {
    if let Some(kind) = queue.declared() {
        // Only looked at, so before anything is declared.
        if let DeadLetterTarget::Exchange { name, .. } = queue.dead_letter_target() {
            ladder::find_exchange(channel, name, queue).await?;
        }
        let arguments = arguments(kind, queue);
        return establish_one(channel, queue.name(), Some(arguments), queue).await;
    }
    establish_one(channel, queue.name(), None, queue).await
}

/// Nobody consumes the queue before, so that none of its messages needs them yet.
async fn establish_dead_letters(channel: &Channel, queue: &Queue) -> Result<(), TopologyError> {
    match (queue.dead_letter_target(), queue.declared()) {
        (DeadLetterTarget::Queue(name), kind) => {
            let arguments = kind.map(dead_letter_arguments);
            establish_one(channel, name, arguments, queue).await
        }
        (DeadLetterTarget::Exchange { name, .. }, None) => {
            ladder::find_exchange(channel, name, queue).await
        }
        // It was found before the queue was declared.
        (DeadLetterTarget::Exchange { .. }, Some(_)) => Ok(()),
    }
}

fn declarations(kind: QueueType, queue: &Queue) -> impl Iterator<Item = (&str, FieldTable)> {
    let dead_letters = queue.dead_letter_queue().into_iter();
    let dead_letters = dead_letters.map(move |name| (name, dead_letter_arguments(kind)));
    [(queue.name(), arguments(kind, queue))]
        .into_iter()
        .chain(dead_letters)
}

/// What the worker would be refused when it declares those of its queues that are there. None is created.
pub(crate) async fn refusals(connection: &Connection, queue: &Queue) -> Vec<String> {
    let mut refusals = Vec::new();
    let Some(kind) = queue.declared() else {
        return refusals;
    };
    for (name, arguments) in declarations(kind, queue) {
        if try_one(connection, name, None, queue).await.is_ok()
            && let Err(refused) = try_one(connection, name, Some(arguments), queue).await
        {
            refusals.push(refused.to_string());
        }
    }
    refusals
}

/// Whether its dead letters are to go to an exchange that is not there.
pub(crate) async fn lacks_dead_letter_exchange(connection: &Connection, queue: &Queue) -> bool {
    let DeadLetterTarget::Exchange { name, .. } = queue.dead_letter_target() else {
        return false;
    };
    // A channel of its own, because a refusal closes it.
    let Ok(channel) = connection.create_channel().await else {
        return false;
    };
    match ladder::find_exchange(&channel, name, queue).await {
        Ok(()) => {
            drop(channel.close(200, "done".into()).await);
            false
        }
        Err(error) => *error.problem() == TopologyProblem::Missing,
    }
}

/// Tries it on a channel of its own, because a refusal closes that.
async fn try_one(
    connection: &Connection,
    name: &str,
    arguments: Option<FieldTable>,
    origin: &Queue,
) -> Result<(), TopologyError> {
    let channel = connection.create_channel().await;
    let channel = channel.map_err(|source| explain(Step::Queue(name), origin, source))?;
    establish_one(&channel, name, arguments, origin).await?;
    let closed = channel.close(200, "done".into()).await;
    closed.map_err(|source| explain(Step::Queue(name), origin, source))
}

/// Declares a queue with these arguments, or checks that it exists, for the sake of `origin`.
async fn establish_one(
    channel: &Channel,
    name: &str,
    arguments: Option<FieldTable>,
    origin: &Queue,
) -> Result<(), TopologyError> {
    let options = QueueDeclareOptions {
        passive: arguments.is_none(),
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let arguments = arguments.unwrap_or_default();
    let declared = channel.queue_declare(name.into(), options, arguments).await;
    declared.map_err(|source| explain(Step::Queue(name), origin, source))?;
    Ok(())
}

/// Declares the way back from the ladder again and again, for ever. If somebody deletes a part of it
/// while messages are on the ladder, none that is published tells.
pub(crate) async fn keep_way_back(connection: &Connection, queue: &Queue) {
    const EVERY: Duration = Duration::from_secs(15);
    // That of a stream ends at another queue, which has its own consumer.
    if !queue.has_ladder() || queue.is_stream() {
        return pending().await;
    }
    loop {
        sleep(EVERY).await;
        // A connection that has ended is its consumer's concern.
        let Ok(channel) = connection.create_channel().await else {
            continue;
        };
        match ladder::declare_way_back(&channel, queue).await {
            Ok(()) => drop(channel.close(200, "done".into()).await),
            Err(error) => {
                tracing::warn!(queue = queue.name(), %error, "the way back from the retry ladder may be missing");
            }
        }
    }
}

/// Frozen from the first release: other arguments would make a worker's restart fail on the
/// queues that an earlier version declared.
// docs/decisions/0003
fn arguments(kind: QueueType, queue: &Queue) -> FieldTable {
    let mut table = typed(kind);
    let (exchange, routing_key) = match queue.dead_letter_target() {
        DeadLetterTarget::Queue(name) => ("", Some(name)),
        DeadLetterTarget::Exchange { name, routing_key } => (name.as_str(), routing_key.as_ref()),
    };
    table.insert("x-dead-letter-exchange".into(), text(exchange));
    if let Some(routing_key) = routing_key {
        table.insert("x-dead-letter-routing-key".into(), text(routing_key));
    }
    if kind == QueueType::Quorum {
        let limit = i64::try_from(Queue::DELIVERY_LIMIT).expect("a small number");
        table.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(limit));
        // At-least-once dead-lettering is silently switched off with any other overflow.
        table.insert("x-dead-letter-strategy".into(), text("at-least-once"));
        table.insert("x-overflow".into(), text("reject-publish"));
    }
    if queue.is_single_active() {
        table.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    }
    if let Retries::Native(delay) = queue.retries() {
        table.insert("x-delayed-retry-type".into(), text("all"));
        table.insert("x-delayed-retry-min".into(), milliseconds(delay.min));
        table.insert("x-delayed-retry-max".into(), milliseconds(delay.max));
    }
    table
}

/// Frozen, too.
fn dead_letter_arguments(kind: QueueType) -> FieldTable {
    let mut table = typed(kind);
    if kind == QueueType::Quorum {
        table.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(UNLIMITED));
    }
    table
}

/// Frozen, too. What the broker returns too often is gone: its client asks again.
fn control_arguments(kind: QueueType) -> FieldTable {
    typed(kind)
}

fn typed(kind: QueueType) -> FieldTable {
    let mut table = FieldTable::default();
    let kind = match kind {
        QueueType::Quorum => "quorum",
        QueueType::Classic => "classic",
    };
    table.insert("x-queue-type".into(), text(kind));
    table
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value))
}

/// A delay, as the broker measures it.
fn milliseconds(delay: Duration) -> AMQPValue {
    let delay = i64::try_from(delay.as_millis()).expect("a day at most");
    AMQPValue::LongLongInt(delay)
}

#[cfg(test)]
mod tests;
