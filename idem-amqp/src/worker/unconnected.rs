//! A consumer without a channel, for tests: deliveries come by hand, and what the broker would be told is
//! handed back.

use std::{marker::PhantomData, sync::Arc};

use idem_core::{
    Executor, Key, Store,
    executor::{ExecutionKind, RunsOn},
    handler::Handler,
};
use tokio_util::sync::CancellationToken;

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
        Publication, Settlement,
        delivery::{Delivery, Origin},
        reply::Reply,
    },
};

/// How a delivery ended, and what the broker would be told.
pub(crate) struct Attended {
    pub(crate) kind: ExecutionKind,
    pub(crate) key: Option<Key>,
    pub(crate) attempt: Option<u32>,
    pub(crate) error: Option<String>,
    pub(crate) settlement: Settlement,
    pub(crate) reply: Option<Reply>,
    pub(crate) on_the_ladder: Option<Publication>,
}

/// One queue's consumer in one worker.
pub(crate) struct Unconnected<H, S, St> {
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
    pub(crate) fn new(executor: Executor<S>, state: Arc<St>, queue: Queue) -> Self {
        let health = HealthState::of(std::iter::once(queue.name()));
        Self {
            runner: HandlerRunner {
                policy: queue.policy_or(H::POLICY),
                handler: PhantomData,
                executor,
                state,
            },
            context: ChannelContext {
                slots: Slots::new(queue.handlers(), queue.waiting()),
                delivery_limit: queue.returns_allowed(None),
                acks: AckSender::to_nobody(),
                ended: CancellationToken::new(),
                draining: CancellationToken::new(),
                failures: Arc::default(),
                health: Arc::new(health),
            },
            queue,
        }
    }

    /// Takes a delivery as far as its settlement; holds it as long as that takes.
    pub(crate) async fn run(&self, origin: Origin, body: Vec<u8>) -> Attended {
        let delivery = Delivery::new(origin);
        let arrival = Arrival::new(delivery, body, &self.queue);
        let mut slot = Slot::on_arrival(&self.context);
        let ran = self
            .runner
            .run(&arrival, &self.queue, &self.context, &mut slot);
        let end = ran.await;
        let on_the_ladder = on_the_ladder(&arrival, &end);
        Attended {
            kind: end.kind,
            key: end.key,
            attempt: end.attempt,
            error: end.error,
            settlement: end.settlement,
            reply: end.reply,
            on_the_ladder,
        }
    }
}

/// The message as the retry ladder would return it, if it goes there.
fn on_the_ladder(arrival: &Arrival, end: &DeliveryEnd) -> Option<Publication> {
    match end.settlement {
        Settlement::Retry { after } => Some(Outgoing::retry(arrival, end, after).into_letter()),
        _ => None,
    }
}
