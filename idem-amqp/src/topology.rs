//! Declares queues, and checks those that somebody else declares.

use lapin::{
    Channel,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable, LongString},
};

use crate::{
    error::TopologyError,
    queue::{Queue, QueueType},
};

mod answer;
mod cure;
mod mismatch;
mod permissions;

pub(crate) use mismatch::{Step, explain};

/// RabbitMQ 4 drops a message that was returned 20 times, unless its queue says otherwise; a dead
/// letter is there to be looked at.
const DEAD_LETTER_DELIVERY_LIMIT: i64 = 1_000_000_000;

/// Declares the queue and its dead-letter queue, or checks that they exist.
pub(crate) async fn establish(channel: &Channel, queue: &Queue) -> Result<(), TopologyError> {
    let dead = queue.dead_letter_queue();
    let (passive, dead_arguments, arguments) = match queue.declared() {
        None => (true, FieldTable::default(), FieldTable::default()),
        Some(kind) => (false, dead_letter_arguments(kind), arguments(kind, dead)),
    };
    // The dead-letter queue first: a message must have somewhere to go from the first one on.
    for (name, arguments) in [(dead, dead_arguments), (queue.name(), arguments)] {
        let options = QueueDeclareOptions {
            passive,
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declared = channel.queue_declare(name.into(), options, arguments).await;
        declared.map_err(|source| explain(Step::Queue(name), queue, source))?;
    }
    Ok(())
}

/// Frozen from the first release: other arguments would make a worker's restart fail on the
/// queues that an earlier version declared.
fn arguments(kind: QueueType, dead: &str) -> FieldTable {
    let mut table = typed(kind);
    table.insert("x-dead-letter-exchange".into(), text(""));
    table.insert("x-dead-letter-routing-key".into(), text(dead));
    if kind == QueueType::Quorum {
        let limit = i64::try_from(Queue::DELIVERY_LIMIT).expect("a small number");
        table.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(limit));
        // At-least-once dead-lettering is silently switched off with any other overflow.
        table.insert("x-dead-letter-strategy".into(), text("at-least-once"));
        table.insert("x-overflow".into(), text("reject-publish"));
    }
    table
}

/// Frozen, too.
fn dead_letter_arguments(kind: QueueType) -> FieldTable {
    let mut table = typed(kind);
    if kind == QueueType::Quorum {
        let limit = AMQPValue::LongLongInt(DEAD_LETTER_DELIVERY_LIMIT);
        table.insert("x-delivery-limit".into(), limit);
    }
    table
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: QueueType) -> String {
        let table = arguments(kind, "q.dead");
        let entries: Vec<_> = table
            .inner()
            .iter()
            .map(|(k, v)| format!("{k}={v:?}"))
            .collect();
        entries.join("\n")
    }

    #[test]
    fn the_arguments_of_declared_queues_stay_as_they_were_released() {
        assert_eq!(
            shown(QueueType::Quorum),
            "x-dead-letter-exchange=LongString(LongString([]))\n\
             x-dead-letter-routing-key=LongString(LongString([113, 46, 100, 101, 97, 100]))\n\
             x-dead-letter-strategy=LongString(LongString([97, 116, 45, 108, 101, 97, 115, 116, 45, 111, 110, 99, 101]))\n\
             x-delivery-limit=LongLongInt(1000)\n\
             x-overflow=LongString(LongString([114, 101, 106, 101, 99, 116, 45, 112, 117, 98, 108, 105, 115, 104]))\n\
             x-queue-type=LongString(LongString([113, 117, 111, 114, 117, 109]))"
        );
    }
}
