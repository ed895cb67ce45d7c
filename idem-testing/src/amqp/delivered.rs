//! How a delivery ended: what a test asserts on.

use std::time::Duration;

use idem_core::{
    Key, Outcome,
    executor::ExecutionKind,
    handler::{Answer, Refusal},
};
use serde::de::DeserializeOwned;

use super::Message;
use idem_amqp::worker::{
    Settlement,
    unconnected::{Arriving, Processed, UnsentReply},
};

/// How a delivery ended, and what RabbitMQ would be told.
///
/// ```test_harness
/// # use idem_amqp::{
/// #     dead_letters::Reason, prelude::*, worker::Settlement,
/// # };
/// # use idem_testing::amqp::{Message, Setup};
/// # #[idempotent(key = message_id(), scope = "orders.note")]
/// # async fn note(_: serde_json::Value) -> Result<(), Failed> { Err(Failed::rejected("no room")) }
/// #[tokio::test(start_paused = true)]
/// async fn a_note_without_room_is_a_dead_letter() {
///     let harness = Setup::new(|| ()).consume::<note>("notes");
///     let ended = harness.deliver(&Message::json("hello").message_id("m-1")).await;
///     assert_eq!(ended.settlement(), Settlement::DeadLetter(Reason::Rejected));
///     assert_eq!((ended.attempt(), ended.error()), (Some(1), Some("no room")));
/// }
/// ```
#[derive(Debug)]
pub struct Delivered {
    pub(crate) kind: ExecutionKind,
    pub(crate) key: Option<Key>,
    pub(crate) attempt: Option<u32>,
    pub(crate) error: Option<String>,
    pub(crate) settlement: Settlement,
    pub(crate) reply: Option<Reply>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) retried: Option<Arriving>,
}

impl Delivered {
    /// How it ended in the engine. `Executed` was done now, `Duplicate` before.
    pub fn kind(&self) -> ExecutionKind {
        self.kind
    }

    /// What RabbitMQ would be told: with the reason of a dead letter, or the delay of a retry.
    pub fn settlement(&self) -> Settlement {
        self.settlement
    }

    /// Which attempt ran, if one did.
    pub fn attempt(&self) -> Option<u32> {
        self.attempt
    }

    /// What went wrong, in one line.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The message's key, if it has one.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// What the store remembers of the message, if it is done: now, or before.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// What the handler returned, now or before, as the store remembers it.
    ///
    /// # Panics
    /// If the message is not done, or its outcome is of another type.
    pub fn output<T: DeserializeOwned>(&self) -> T {
        match self.outcome.as_ref().map(Outcome::answer) {
            Some(Answer::Output(output)) => read(output, "output"),
            Some(Answer::Rejected(refusal) | Answer::Forgotten(refusal)) => {
                panic!("there is no output, but `{}`: {refusal}", refusal.code())
            }
            _ => panic!(
                "there is no output: the delivery ended as `{}`, {}",
                self.kind,
                self.error().unwrap_or("and nothing is remembered of it")
            ),
        }
    }

    /// What the requester would be told, if the message has a `reply_to` and is done with.
    pub fn reply(&self) -> Option<&Reply> {
        self.reply.as_ref()
    }

    /// How the message comes to the queue again, and after how long; `None` if it is done with.
    pub(super) fn comes_back(&self, message: &Message) -> Option<(Duration, Message)> {
        match self.settlement {
            // Nobody mends here what a worker whose stream stops would try again each minute.
            Settlement::Ack
            | Settlement::DeadLetter(_)
            | Settlement::Drop(_)
            | Settlement::Stop { .. } => None,
            Settlement::Retry { after } => {
                let retried = self.retried.clone();
                let returned = retried.map_or_else(|| message.redelivered(), Message::from);
                Some((after, returned))
            }
            Settlement::Requeue { after: wait } | Settlement::Hold { recheck: wait } => {
                Some((wait, message.redelivered()))
            }
            // Left to the broker; so is what a later version may answer.
            _ => Some((AFTER_A_CHANNEL, message.redelivered())),
        }
    }
}

/// How long a broker takes to notice that a channel has ended, say.
const AFTER_A_CHANNEL: Duration = Duration::from_secs(1);

/// What a requester would be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    body: Vec<u8>,
    is_refusal: bool,
    is_replayed: bool,
}

impl Reply {
    /// What the handler returned.
    ///
    /// # Panics
    /// If it is a refusal, or of another type.
    pub fn output<T: DeserializeOwned>(&self) -> T {
        if let Some(refusal) = self.refusal() {
            panic!("the reply is a refusal, `{}`: {refusal}", refusal.code());
        }
        read(&self.body, "reply")
    }

    /// Why the request is refused, if it is.
    pub fn refusal(&self) -> Option<Refusal> {
        self.is_refusal.then(|| read(&self.body, "refusal"))
    }

    /// Whether it is repeated from memory: nothing ran for it.
    pub fn is_replayed(&self) -> bool {
        self.is_replayed
    }
}

impl From<Processed> for Delivered {
    fn from(processed: Processed) -> Self {
        Self {
            kind: processed.kind,
            key: processed.key,
            attempt: processed.attempt,
            error: processed.error,
            settlement: processed.settlement,
            reply: processed.reply.map(Into::into),
            outcome: None,
            retried: processed.retried,
        }
    }
}

impl From<UnsentReply> for Reply {
    fn from(reply: UnsentReply) -> Self {
        Self {
            body: reply.body,
            is_refusal: reply.is_refusal,
            is_replayed: reply.is_replayed,
        }
    }
}

fn read<T: DeserializeOwned>(json: &[u8], what: &str) -> T {
    match serde_json::from_slice(json) {
        Ok(value) => value,
        Err(error) => {
            let text = String::from_utf8_lossy(json);
            panic!(
                "the {what} is no `{}` ({error}): {text}",
                std::any::type_name::<T>()
            )
        }
    }
}
