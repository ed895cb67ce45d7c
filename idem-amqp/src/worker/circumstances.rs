//! What a delivery's settlement depends on, as the delivery tells.

use idem_core::HeaderSource as _;

use super::{attend::Arrival, desk::Desk};
use crate::{
    Queue,
    delivery::Delivery,
    retry::conflicts,
    settlement::{Asker, Circumstances},
};

/// Those of a delivery that has just come to this desk.
pub(super) fn circumstances<'a>(
    arrival: &Arrival,
    queue: &'a Queue,
    desk: &Desk,
) -> Circumstances<'a> {
    Circumstances {
        conflicts: conflicts(&arrival.delivery),
        returns: returns(&arrival.delivery),
        last_returns: arrival.delivery.is_close_to(desk.delivery_limit),
        asker: asker(arrival),
        ..Circumstances::new(queue.retries())
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

/// How often the message was returned. Where the broker does not count, once is taken for often.
fn returns(delivery: &Delivery) -> u32 {
    let counts = ["x-acquired-count", "x-delivery-count"];
    let count = counts
        .iter()
        .find_map(|name| delivery.get(name)?.parse().ok());
    match count {
        Some(count) => count,
        None if delivery.is_redelivered() => u32::MAX,
        None => 0,
    }
}
