//! What the services said, what their ledger says, and what that means: a table for people and one line of figures.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Result, ensure};
use serde::Deserialize;

/// How many orders are named of those that should not be.
const NAMED: usize = 5;

/// What a service says of a message that it is done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    service: Service,
    order_id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Charge,
    Ship,
}

impl Settled {
    /// `executed     orders.ship:o-17`
    pub(super) fn read(line: &str) -> Option<Self> {
        let (outcome, key) = line.split_once(' ')?;
        let (scope, order_id) = key.trim_start().split_once(':')?;
        let service = match scope {
            "orders.charge" => Service::Charge,
            "orders.ship" => Service::Ship,
            _ => return None,
        };
        // Anything else comes again.
        ["executed", "duplicate"].contains(&outcome).then(|| Self {
            service,
            order_id: order_id.to_owned(),
        })
    }
}

/// What both services are done with.
#[derive(Debug, Default)]
pub(super) struct Tally {
    charged: BTreeSet<String>,
    /// How often each event was in its queue.
    events: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn count(&mut self, settled: &Settled) {
        let order_id = settled.order_id.clone();
        match settled.service {
            Service::Charge => {
                self.charged.insert(order_id);
            }
            Service::Ship => *self.events.entry(order_id).or_default() += 1,
        }
    }

    /// Orders.
    pub(super) fn charged(&self) -> u64 {
        self.charged.len() as u64
    }

    /// Orders.
    pub(super) fn shipped(&self) -> u64 {
        self.events.len() as u64
    }
}

/// What is in the database for one order.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    order_id: String,
    charges: u64,
    shipments: u64,
}

#[derive(Debug)]
pub(super) struct Report {
    orders: usize,
    events: u64,
    confirmed: u64,
    lost: Vec<String>,
    doubled: Vec<String>,
}

impl Report {
    /// A ledger on a server that outlives the run may hold orders of others.
    pub(super) fn new(orders: &[String], tally: &Tally, ledger: Vec<Row>) -> Self {
        let rows = ledger.into_iter().map(|row| (row.order_id.clone(), row));
        let rows: BTreeMap<_, _> = rows.collect();
        let of = |order: &String| {
            rows.get(order)
                .map_or((0, 0), |it| (it.charges, it.shipments))
        };
        let those = |wanted: &dyn Fn(&String) -> bool| -> Vec<_> {
            let orders = orders.iter().filter(|order| wanted(order));
            orders.cloned().collect()
        };
        Self {
            orders: orders.len(),
            events: tally.shipped(),
            confirmed: tally.events.values().sum(),
            lost: those(&|order| {
                let (charges, shipments) = of(order);
                charges == 0 || shipments == 0 || !tally.events.contains_key(order)
            }),
            doubled: those(&|order| {
                let (charges, shipments) = of(order);
                charges > 1 || shipments > 1
            }),
        }
    }

    /// # Errors
    ///
    /// An order was lost or doubled.
    pub(super) fn verdict(&self) -> Result<()> {
        let named = |orders: &[String]| orders[..orders.len().min(NAMED)].join(", ");
        ensure!(
            self.lost.is_empty() && self.doubled.is_empty(),
            "{} orders are lost ({}), {} are doubled ({})",
            self.lost.len(),
            named(&self.lost),
            self.doubled.len(),
            named(&self.doubled)
        );
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            orders,
            events,
            confirmed,
            ..
        } = self;
        let repeated = confirmed - events;
        let (lost, doubled) = (self.lost.len(), self.doubled.len());
        writeln!(f)?;
        for (name, count, note) in [
            ("orders", *orders as u64, "each published twice, shuffled"),
            ("events", *events, "one for each order that was charged"),
            (
                "confirmed",
                *confirmed,
                "messages with an event, in their queue",
            ),
            (
                "repeated",
                repeated,
                "of these: published again, and dropped as duplicates",
            ),
            (
                "lost",
                lost as u64,
                "orders without a charge, an event or a shipment",
            ),
            (
                "doubled",
                doubled as u64,
                "orders charged or shipped more than once",
            ),
        ] {
            writeln!(f, "  {name:<16} {count:>8}   {note}")?;
        }
        writeln!(
            f,
            "\noutbox: orders={orders} events={events} confirmed={confirmed} repeated={repeated} lost={lost} doubled={doubled}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ledger holds orders with their charges and shipments.
    fn report(lines: &[&str], ledger: &[(&str, u64, u64)]) -> Report {
        let orders = ["a", "b"].map(str::to_owned);
        let mut tally = Tally::default();
        for settled in lines.iter().filter_map(|line| Settled::read(line)) {
            tally.count(&settled);
        }
        let rows = ledger.iter().map(|&(order_id, charges, shipments)| Row {
            order_id: order_id.to_owned(),
            charges,
            shipments,
        });
        Report::new(&orders, &tally, rows.collect())
    }

    const ALL: [&str; 7] = [
        "executed     orders.charge:a",
        // Its worker was killed before it could say that it had executed it.
        "duplicate    orders.charge:b",
        "failed       orders.ship:a",
        "executed     orders.ship:a",
        "executed     orders.ship:b",
        "duplicate    orders.ship:b",
        "done: deliveries=3 executed=2 duplicate=1",
    ];

    #[test]
    fn a_repeated_event_that_is_shipped_once_is_what_is_promised() {
        let report = report(&ALL, &[("a", 1, 1), ("b", 1, 1), ("of another run", 2, 0)]);
        let figures = "\noutbox: orders=2 events=2 confirmed=3 repeated=1 lost=0 doubled=0\n";
        assert!(report.to_string().ends_with(figures), "{report}");
        report.verdict().expect("all is well");
    }

    #[test]
    fn an_order_without_a_charge_or_a_shipment_is_lost() {
        for ledger in [[("a", 1, 1), ("b", 1, 0)], [("a", 0, 1), ("b", 1, 1)]] {
            assert_eq!(report(&ALL, &ledger).lost.len(), 1, "{ledger:?}");
            report(&ALL, &ledger).verdict().expect_err("one is lost");
        }
    }

    #[test]
    fn a_shipment_without_an_event_is_a_loss() {
        let report = report(&ALL[..4], &[("a", 1, 1), ("b", 1, 1)]);
        let error = report.verdict().expect_err("an event is lost").to_string();
        assert_eq!(error, "1 orders are lost (b), 0 are doubled ()");
    }

    #[test]
    fn two_charges_or_two_shipments_are_a_double() {
        for ledger in [[("a", 2, 1), ("b", 1, 1)], [("a", 1, 1), ("b", 1, 2)]] {
            assert_eq!(report(&ALL, &ledger).doubled.len(), 1, "{ledger:?}");
            report(&ALL, &ledger).verdict().expect_err("one is doubled");
        }
    }
}
