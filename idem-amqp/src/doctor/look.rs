//! Looks up how an existing queue was declared.
//!
//! AMQP has no question for that, but a refusal answers it: declared with other arguments than it
//! has, a queue that exists is refused, and the broker says which argument it has instead. So the
//! queue is declared with what is known of it, one refusal after the other, until it is accepted
//! as it is. Each costs a channel and a line in the broker's log.
//!
//! Nothing is ever created by this: every declaration carries an argument that is only for streams
//! and has no stream's value, so that no queue of any type can be made with it. On a queue of
//! another type that exists it is ignored.

use std::collections::BTreeMap;

use lapin::{
    Connection, Error, ErrorKind,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldArray, FieldTable},
};

use super::{Arguments, Declaration};
use crate::topology::{Value, difference};

/// No queue can be created with this argument and a list as its value.
// docs/decisions/0013
const NEVER_CREATED: &str = "x-max-age";

/// A queue has about ten arguments at most.
const MOST_REFUSALS: usize = 32;

/// How the queue was declared, or why that is not known.
pub(super) async fn look(connection: &Connection, queue: &str) -> Declaration {
    let mut known = Known::default();
    for _ in 0..MOST_REFUSALS {
        let refusal = match declare(connection, queue, &known).await {
            Ok(()) => return Declaration::Arguments(known.arguments),
            Err(error) => error,
        };
        match known.learn(&refusal) {
            Learnt::More => {}
            Learnt::All => return Declaration::Arguments(known.arguments),
            Learnt::Missing => return Declaration::Missing,
            Learnt::Nothing => return Declaration::Hidden(words(&refusal)),
        }
    }
    Declaration::Hidden("the broker's answers do not end".into())
}

/// What the broker said, without what the client adds.
fn words(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => refusal.get_message().to_string(),
        _ => error.to_string(),
    }
}

async fn declare(connection: &Connection, queue: &str, known: &Known) -> Result<(), Error> {
    let channel = connection.create_channel().await?;
    let options = QueueDeclareOptions {
        durable: known.arguments.durable,
        auto_delete: known.arguments.auto_delete,
        ..QueueDeclareOptions::default()
    };
    let table = known.table();
    channel.queue_declare(queue.into(), options, table).await?;
    channel.close(200, "done".into()).await
}

/// What the refusals have told so far.
#[derive(Default)]
struct Known {
    arguments: Arguments,
    /// The arguments as AMQP has them.
    values: BTreeMap<String, AMQPValue>,
}

/// What a refusal has told.
#[derive(Debug, PartialEq, Eq)]
enum Learnt {
    /// One more argument.
    More,
    /// There is no more to be told.
    All,
    /// There is no such queue: the refusal is that of its creation.
    Missing,
    /// The answer was nothing that we understand.
    Nothing,
}

impl Known {
    fn table(&self) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in &self.values {
            table.insert(name.as_str().into(), value.clone());
        }
        let list = FieldArray::from(vec![AMQPValue::Boolean(true)]);
        table.insert(NEVER_CREATED.into(), AMQPValue::FieldArray(list));
        table
    }

    fn learn(&mut self, refusal: &Error) -> Learnt {
        let ErrorKind::ProtocolError(refusal) = refusal.kind() else {
            return Learnt::Nothing;
        };
        self.learn_text(refusal.get_message().as_str())
    }

    fn learn_text(&mut self, refusal: &str) -> Learnt {
        let Some(difference) = difference(refusal) else {
            return match refusal.strip_prefix("PRECONDITION_FAILED - invalid arg ") {
                Some(_) => Learnt::Missing,
                None => Learnt::Nothing,
            };
        };
        match (difference.argument, difference.existing) {
            // It is a stream, of which everything else has been compared, or nothing matters.
            (NEVER_CREATED, age) => {
                let age = age.map(|age| (NEVER_CREATED.into(), age.text));
                self.arguments.values.extend(age);
                Learnt::All
            }
            ("durable", Some(value)) => set(&mut self.arguments.durable, &value.text),
            ("auto_delete", Some(value)) => set(&mut self.arguments.auto_delete, &value.text),
            (name, Some(value)) => self.learn_argument(name, value),
            // A vhost's default type stands for ours: the queue has none, which means classic.
            ("x-queue-type", None) => self.learn_argument("x-queue-type", classic()),
            (_, None) => Learnt::Nothing,
        }
    }

    fn learn_argument(&mut self, name: &str, value: Value) -> Learnt {
        let Some(as_amqp) = as_amqp(&value) else {
            return Learnt::Nothing;
        };
        self.arguments.values.insert(name.into(), value.text);
        match self.values.insert(name.into(), as_amqp) {
            None => Learnt::More,
            Some(_) => Learnt::Nothing,
        }
    }
}

fn set(property: &mut bool, value: &str) -> Learnt {
    let is_set = value == "true";
    if *property == is_set {
        return Learnt::Nothing;
    }
    *property = is_set;
    Learnt::More
}

fn classic() -> Value {
    Value {
        text: "classic".into(),
        kind: None,
    }
}

/// The value in a type that the broker takes for the same: all integers are alike.
fn as_amqp(value: &Value) -> Option<AMQPValue> {
    match value.kind.as_deref() {
        None | Some("longstr") => Some(AMQPValue::LongString(value.text.as_str().into())),
        Some("bool") => Some(AMQPValue::Boolean(value.text == "true")),
        Some(_) => value.text.parse().ok().map(AMQPValue::LongLongInt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(argument: &str, values: &str) -> String {
        format!(
            "PRECONDITION_FAILED - inequivalent arg '{argument}' for queue 'q' in vhost '/': {values}"
        )
    }

    #[test]
    fn refusals_tell_one_argument_after_the_other() {
        let mut known = Known::default();
        for refusal in [
            differs("durable", "received 'true' but current is 'false'"),
            differs(
                "x-dead-letter-exchange",
                "received none but current is the value '' of type 'longstr'",
            ),
            differs("x-queue-type", "received 'classic' but current is 'quorum'"),
            differs(
                "x-delivery-limit",
                "received none but current is the value '5' of type 'signedint'",
            ),
            differs(
                "x-single-active-consumer",
                "received none but current is the value 'true' of type 'bool'",
            ),
        ] {
            assert_eq!(known.learn_text(&refusal), Learnt::More, "{refusal}");
        }
        assert!(!known.arguments.durable);
        let learnt: Vec<_> = known.arguments.values.into_iter().collect();
        let expected = [
            ("x-dead-letter-exchange", ""),
            ("x-delivery-limit", "5"),
            ("x-queue-type", "quorum"),
            ("x-single-active-consumer", "true"),
        ];
        assert_eq!(
            learnt,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
        assert_eq!(known.values["x-delivery-limit"], AMQPValue::LongLongInt(5));
        assert_eq!(
            known.values["x-single-active-consumer"],
            AMQPValue::Boolean(true)
        );
    }

    #[test]
    fn a_classic_queue_is_told_apart_from_the_vhosts_default_type() {
        let mut known = Known::default();
        let refusal = "received the value 'quorum' of type 'longstr' but current is none";
        assert_eq!(
            known.learn_text(&differs("x-queue-type", refusal)),
            Learnt::More
        );
        assert_eq!(known.arguments.text("x-queue-type"), Some("classic"));
    }

    #[test]
    fn a_stream_has_told_all_when_it_lacks_the_argument_of_streams() {
        let refusal = "received the value '[{bool,true}]' of type 'array' but current is none";
        let mut known = Known::default();
        let learnt = known.learn_text(&differs(NEVER_CREATED, refusal));
        assert_eq!(learnt, Learnt::All);
        assert!(!known.arguments.has(NEVER_CREATED));
        let learnt = known.learn_text(&differs(
            NEVER_CREATED,
            "received the value '[{bool,true}]' of type 'array' but current is the value '1D' of type 'longstr'",
        ));
        assert_eq!(learnt, Learnt::All);
        assert_eq!(known.arguments.text(NEVER_CREATED), Some("1D"));
    }

    #[test]
    fn a_queue_that_would_have_to_be_created_does_not_exist() {
        for refusal in [
            "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue",
            "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '/': {unacceptable_type,array}",
        ] {
            assert_eq!(
                Known::default().learn_text(refusal),
                Learnt::Missing,
                "{refusal}"
            );
        }
    }

    #[test]
    fn what_is_not_understood_or_told_twice_tells_nothing() {
        let mut known = Known::default();
        let limit = differs(
            "x-delivery-limit",
            "received none but current is the value '5' of type 'signedint'",
        );
        assert_eq!(known.learn_text(&limit), Learnt::More);
        for refusal in [
            limit.as_str(),
            "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'shop'",
            &differs(
                "x-arguments",
                "received none but current is the value '[]' of type 'table'",
            ),
            &differs("durable", "received 'true' but current is 'true'"),
        ] {
            assert_eq!(known.learn_text(refusal), Learnt::Nothing, "{refusal}");
        }
    }
}
