//! What is known of the orders that did not end as they should.

use std::fmt;

use super::{
    life::Life,
    orders::Orders,
    tally::{Evidence, Tally},
};
use crate::process::Event;

/// So many orders are told of.
const AT_MOST: usize = 10;

/// A few lines per order.
#[derive(Debug, Default)]
pub(super) struct History(Vec<String>);

impl History {
    pub(super) fn of(tally: &Tally, orders: &Orders, evidence: &Evidence, lives: &[Life]) -> Self {
        let bad = [
            ("lost", &tally.lost),
            ("doubled", &tally.doubled),
            ("stuck", &tally.stuck),
        ];
        let mut told = Vec::new();
        for (what, ids) in bad {
            for id in ids.iter().take(AT_MOST) {
                told.push(format!("{what}: {id}, {:?}", orders.manners()[id]));
                told.extend(of_order(id, evidence, lives));
            }
            if ids.len() > AT_MOST {
                told.push(format!("{what}: {} more", ids.len() - AT_MOST));
            }
        }
        Self(told)
    }
}

fn of_order(id: &str, evidence: &Evidence, lives: &[Life]) -> Vec<String> {
    let charges = evidence.charges.iter();
    let charges = charges.filter(|charge| charge.order_id == id);
    let charges = charges.map(|charge| format!("  in the ledger: {charge:?}"));
    let shipments = evidence.shipments.iter().flatten();
    let shipments = shipments.filter(|shipment| shipment.order_id == id);
    let shipments = shipments.map(|_| "  its event has arrived".to_owned());
    let letters = evidence.dead.iter().filter(|letter| letter.id == id);
    let letters = letters.map(|letter| format!("  a dead letter: {}", letter.reason));
    let events = lives.iter().flat_map(|life| {
        let events = life.events.entries().into_iter();
        let events = events.filter(|event| is_about(event, id));
        events.map(|event| format!("  {}: {event:?}", life.name))
    });
    charges
        .chain(shipments)
        .chain(letters)
        .chain(events)
        .collect()
}

fn is_about(event: &Event, id: &str) -> bool {
    match event {
        Event::Started { order_id, .. } => order_id == id,
        Event::Ended { key: Some(key), .. } => key.split_once(':').is_some_and(|(_, of)| of == id),
        _ => false,
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.0.iter();
        lines.try_for_each(|line| writeln!(f, "{line}"))
    }
}
