//! What a delivery's settlement depends on, as the delivery tells.

use idem_core::{
    Policy,
    message::HeaderSource as _,
    settlement::{Asker, Behind, Circumstances, Content, Delivered, Retries, Source},
};

use super::{arrival::Arrival, channel_context::ChannelContext};
use crate::{
    topology::Queue,
    wire::{delivery::Delivery, headers::ATTEMPT, retry::conflicts},
};

/// Those of a delivery that has just come on this channel.
pub(super) fn circumstances<'a>(
    arrival: &Arrival,
    queue: &'a Queue,
    policy: &'a Policy,
    context: &ChannelContext,
) -> Circumstances<'a> {
    let retries = if arrival.keeps_place {
        Retries::Here
    } else {
        queue.retries().into()
    };
    Circumstances {
        policy,
        conflicts: conflicts(&arrival.delivery),
        returns: returns(&arrival.delivery),
        last_returns: arrival.delivery.is_close_to(context.delivery_limit),
        content: content(&arrival.delivery),
        asker: asker(arrival),
        delivered: delivered(&arrival.delivery),
        on_failure: queue.failure_policy(),
        source: if queue.is_stream() {
            Source::Stream
        } else {
            Source::Queue
        },
        behind: if context.in_order.is_some() {
            Behind::Mark
        } else if arrival.is_ordered {
            Behind::Lane
        } else {
            Behind::Nothing
        },
        ..Circumstances::new(retries)
    }
}

fn content(delivery: &Delivery) -> Content {
    if delivery.unreadable().is_some() {
        Content::Unreadable
    } else {
        Content::Published
    }
}

fn delivered(delivery: &Delivery) -> Delivered {
    if delivery.may_have_run() {
        Delivered::Again
    } else {
        Delivered::First
    }
}

fn asker(arrival: &Arrival) -> Asker {
    if arrival.delivery.is_replay() {
        Asker::Operator
    } else if arrival.envelope.expects_reply() {
        Asker::Requester
    } else {
        Asker::Nobody
    }
}

/// How many attempts have been made with the message, as far as it tells itself.
pub(super) fn attempts(delivery: &Delivery) -> u32 {
    let carried = delivery.get(ATTEMPT).filter(|_| delivery.comes_back());
    let carried: u32 = carried.and_then(|number| number.parse().ok()).unwrap_or(0);
    // What comes from the ladder is a new message to the broker.
    carried.saturating_add(counted(delivery).unwrap_or(0))
}

/// How often the message was returned. Where the broker does not count, once is taken for often.
fn returns(delivery: &Delivery) -> u32 {
    match counted(delivery) {
        Some(count) => count,
        None if delivery.is_redelivered() => u32::MAX,
        None => 0,
    }
}

/// What the broker has counted.
pub(super) fn counted(delivery: &Delivery) -> Option<u32> {
    let counts = ["x-acquired-count", "x-delivery-count"];
    counts
        .iter()
        .find_map(|name| delivery.get(name)?.parse().ok())
}

#[cfg(test)]
mod tests;
