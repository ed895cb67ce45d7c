//! What becomes of a message that no route of its queue takes: it is dead-lettered, and its requester told.
//!
//! What must stay true: it never goes back to its queue.

use futures_util::future::BoxFuture;
use idem_core::{
    Key, Policy,
    executor::ExecutionKind,
    handler::Refusal,
    settlement::{Circumstances, Content, Settlement, settle},
};

use super::{
    arrival::{Arrival, DeliveryEnd},
    channel_context::{ChannelContext, Slot},
    circumstances::circumstances,
    handler_runner::{RunHandler, unreadable},
    route::{By, Route},
};
use crate::{
    topology::Queue,
    wire::{Delivery, reply::Reply},
};

/// What runs for messages that no route takes: nothing.
// docs/decisions/0046
pub(super) struct NoRoute {
    by: By,
    pub(super) policy: Policy,
}

impl NoRoute {
    /// What takes the messages that no route takes, of a queue that has this route.
    pub(super) fn beside(route: &Route, queue: &Queue) -> Self {
        Self {
            by: route.by.clone(),
            policy: queue.policy_or(Policy::DEFAULT),
        }
    }

    fn error(&self, delivery: &Delivery) -> String {
        let by = &self.by;
        match by.value(delivery) {
            Some(value) => format!("no route of its queue takes its {by}, `{value}`"),
            None => format!(
                "it has no {by} that can be read as text, by which its queue's handlers are chosen"
            ),
        }
    }
}

impl RunHandler for NoRoute {
    fn run<'a>(
        &'a self,
        arrival: &'a Arrival,
        queue: &'a Queue,
        context: &'a ChannelContext,
        slot: &'a mut Slot,
    ) -> BoxFuture<'a, DeliveryEnd> {
        Box::pin(async move {
            if !slot.start_running(context).await {
                return DeliveryEnd::abandoned();
            }
            let mut now = circumstances(arrival, queue, &self.policy, context);
            let error = unreadable(&arrival.delivery).unwrap_or_else(|| {
                now.content = Content::NoRoute;
                self.error(&arrival.delivery)
            });
            refused(arrival, error, &now)
        })
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn ordered_by(&self, _: &Arrival) -> Option<Key> {
        None
    }

    fn may_overtake_failed(&self) -> bool {
        false
    }
}

fn refused(arrival: &Arrival, error: String, now: &Circumstances<'_>) -> DeliveryEnd {
    let kind = ExecutionKind::Undecodable;
    let settlement = settle(kind, now);
    let reply = match settlement {
        Settlement::DeadLetter(reason) if arrival.envelope.expects_reply() => {
            Some(Reply::refusal(&Refusal::new(reason.as_str(), &*error)))
        }
        _ => None,
    };
    DeliveryEnd {
        error: Some(error),
        settlement,
        reply,
        ..DeliveryEnd::bare(kind)
    }
}
