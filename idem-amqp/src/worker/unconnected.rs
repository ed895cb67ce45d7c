//! A queue's consumer without a connection: what `idem-testing` delivers messages to.
//!
//! Deliveries come by hand, and what RabbitMQ would be told is handed back. Everything between is the
//! worker's own: decoding, the executor, held messages, the settlement. Compiled with the feature
//! `testing`; it may change with any version.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, atomic::AtomicBool},
};

use idem_core::{
    Executor, Key, Store,
    executor::{ExecutionKind, RunsOn},
    handler::{Handler, Operation},
    settlement::{Reason, Settlement},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, LongString, ShortString},
};
use tokio_util::sync::CancellationToken;

mod sessions;

pub use sessions::SessionServer;

use super::{
    ack_sender::AckSender,
    arrival::{Arrival, DeliveryEnd},
    channel_context::{ChannelContext, Slot, Slots},
    handler_runner::{HandlerRunner, RunHandler as _},
    outgoing::Outgoing,
};
use crate::{
    connection::health::HealthState,
    topology::Queue,
    wire::{
        Publication,
        delivery::{Delivery, Origin},
        headers,
        ladder::RETURN,
        reply::Reply,
    },
};

/// A message on its way to a consumer, as the broker delivers it.
#[derive(Debug, Clone, Default)]
pub struct Arriving {
    /// Where it was published to; empty is the default exchange.
    pub exchange: ShortString,
    /// The routing key; with the default exchange, the queue's name.
    pub routing_key: ShortString,
    /// Whether the broker has delivered it before.
    pub redelivered: bool,
    /// Message id, headers and the others.
    pub properties: BasicProperties,
    /// Its content.
    pub body: Vec<u8>,
}

impl Arriving {
    /// The same, as a replayed dead letter of this queue.
    pub fn replayed(mut self, queue: &str) -> Self {
        let mut own = self.properties.headers().clone().unwrap_or_default();
        for (name, value) in [
            (headers::REASON, Reason::Rejected.as_str()),
            (headers::QUEUE, queue),
        ] {
            own.insert(name.into(), AMQPValue::LongString(LongString::from(value)));
        }
        self.properties = self.properties.with_headers(own);
        self
    }
}

/// The publication as it arrives at the queue that it is published to.
impl From<Publication> for Arriving {
    fn from(publication: Publication) -> Self {
        Self {
            exchange: publication.exchange,
            routing_key: publication.routing_key,
            redelivered: false,
            properties: publication.properties,
            body: publication.body,
        }
    }
}

/// How a delivery ended, and what the broker would be told.
#[derive(Debug)]
pub struct Processed {
    /// How it ended in the engine.
    pub kind: ExecutionKind,
    /// The message's key, if it has one.
    pub key: Option<Key>,
    /// Which attempt ran, if one did.
    pub attempt: Option<u32>,
    /// What went wrong, in one line.
    pub error: Option<String>,
    /// What the broker would be told.
    pub settlement: Settlement,
    /// What the requester would be sent.
    pub reply: Option<UnsentReply>,
    /// The message as the retry ladder would return it, if it goes there.
    pub retried: Option<Arriving>,
}

/// A reply that nobody sends.
#[derive(Debug)]
pub struct UnsentReply {
    /// JSON: what the handler returned, or a refusal.
    pub body: Vec<u8>,
    /// Whether it is a refusal.
    pub is_refusal: bool,
    /// Whether it is repeated from memory: nothing ran for it.
    pub is_replayed: bool,
}

/// One queue's consumer in one worker, without a channel.
pub struct Unconnected<H, S, St> {
    runner: HandlerRunner<H, S, St>,
    context: ChannelContext,
    queue: Queue,
}

impl<H, S, St> Unconnected<H, S, St>
where
    H: Handler<St>,
    H::Mode: RunsOn<S>,
    S: Store,
    St: Send + Sync + 'static,
{
    /// Consumes this queue with the handler.
    pub fn new(executor: Executor<S>, state: Arc<St>, queue: Queue) -> Self {
        let health = HealthState::of(std::iter::once(queue.name()));
        Self {
            runner: HandlerRunner {
                policy: queue.policy_or(H::POLICY),
                has_met_unordered: AtomicBool::new(false),
                handler: PhantomData,
                executor,
                state,
            },
            context: ChannelContext {
                slots: Slots::new(queue.handlers(), queue.waiting()),
                delivery_limit: queue.returns_allowed(None),
                acks: AckSender::to_nobody(),
                closed: CancellationToken::new(),
                draining: CancellationToken::new(),
                failures: Arc::default(),
                health: Arc::new(health),
                reading: None,
                in_order: None,
            },
            queue,
        }
    }

    /// Takes a delivery as far as its settlement; holds it as long as that takes.
    pub async fn run(&self, message: Arriving) -> Processed {
        let origin = Origin {
            unreadable: None,
            comes_back_to: None,
            partition: None,
            queue: self.queue.name().into(),
            exchange: message.exchange,
            routing_key: message.routing_key,
            redelivered: message.redelivered,
            properties: message.properties,
        };
        let mut arrival = Arrival::new(Delivery::new(origin), message.body, &self.queue);
        let lane = self.runner.ordered_by(&arrival);
        arrival.in_lane(lane.as_ref(), self.runner.may_overtake_failed());
        let mut slot = Slot::on_arrival(&self.context, 0);
        let ran = self
            .runner
            .run(&arrival, &self.queue, &self.context, &mut slot);
        let end = ran.await;
        let retried = retried(&arrival, &end);
        Processed {
            kind: end.kind,
            key: end.key,
            attempt: end.attempt,
            error: end.error,
            settlement: end.settlement,
            reply: end.reply.map(Into::into),
            retried,
        }
    }
}

/// The message as the retry ladder would return it, if it goes there.
fn retried(arrival: &Arrival, end: &DeliveryEnd) -> Option<Arriving> {
    let Settlement::Retry { after } = end.settlement else {
        return None;
    };
    let letter = Outgoing::retry(arrival, end, after).into_letter();
    Some(Arriving {
        exchange: RETURN.into(),
        ..letter.into()
    })
}

impl From<Reply> for UnsentReply {
    fn from(reply: Reply) -> Self {
        let (body, is_refusal, is_replayed) = reply.into_parts();
        Self {
            body,
            is_refusal,
            is_replayed,
        }
    }
}

impl<H: Operation, S, St> fmt::Debug for Unconnected<H, S, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unconnected")
            .field("scope", &H::SCOPE)
            .field("queue", &self.queue.name())
            .finish_non_exhaustive()
    }
}
