//! What the demonstration showed: a table for people and one line of figures.

use std::{collections::BTreeMap, fmt};

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::tally::Tally;

/// How many orders are named of those that should not be.
const NAMED: usize = 5;

/// A charge, as the worker's ledger has it.
#[derive(Debug, Deserialize)]
pub(super) struct Charge {
    order_id: String,
    worker: String,
}

#[derive(Debug)]
pub(super) struct Report {
    copies: u32,
    orders: usize,
    deliveries: u64,
    unreported: u64,
    outcomes: BTreeMap<String, u64>,
    charged: usize,
    by_worker: BTreeMap<String, u64>,
    lost: Vec<String>,
    doubled: Vec<String>,
    dead: u64,
}

impl Report {
    /// `delivered` are the messages of which it is known that they were delivered. A ledger on a server that outlives
    /// the run may hold orders of others.
    pub(super) fn new(
        orders: &[String],
        copies: u32,
        delivered: u64,
        tally: &Tally,
        ledger: Vec<Charge>,
    ) -> Self {
        let mut charges: BTreeMap<_, u64> = orders.iter().map(|order| (order, 0)).collect();
        let mut by_worker = BTreeMap::new();
        for charge in ledger {
            if let Some(count) = charges.get_mut(&charge.order_id) {
                *count += 1;
                *by_worker.entry(charge.worker).or_default() += 1;
            }
        }
        let those = |wanted: &dyn Fn(&String, u64) -> bool| -> Vec<_> {
            let orders = charges
                .iter()
                .filter(|(order, count)| wanted(order, **count));
            orders.map(|(order, _)| (*order).clone()).collect()
        };
        let deliveries = tally.deliveries(delivered);
        Self {
            copies,
            orders: orders.len(),
            deliveries,
            unreported: deliveries - tally.reported(),
            outcomes: tally.by_outcome.clone(),
            charged: those(&|_, count| count > 0).len(),
            by_worker,
            lost: those(&|order, count| count == 0 && !tally.dead_orders.contains(order)),
            doubled: those(&|_, count| count > 1),
            dead: tally.dead,
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

fn meaning(outcome: &str) -> &'static str {
    match outcome {
        "executed" => "charged by the worker that says so",
        "duplicate" => "charged before: acknowledged, nothing done",
        "conflict" => "another worker was charging it: handed back",
        "failed" => "worth another attempt",
        "abandoned" => "handed back before the handler ran",
        _ => "",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        let mut row = |name: &str, count: u64, note: &str| {
            let row = format!("  {name:<16} {count:>8}   {note}");
            writeln!(f, "{}", row.trim_end())
        };
        let (lost, doubled) = (self.lost.len(), self.doubled.len());
        let published = format!("each published {} times, shuffled", self.copies);
        row("orders", self.orders as u64, &published)?;
        row("deliveries", self.deliveries, "of which")?;
        for (outcome, count) in &self.outcomes {
            row(&format!("  {outcome}"), *count, meaning(outcome))?;
        }
        let unreported = "died with the worker that was killed; came again";
        row("  unreported", self.unreported, unreported)?;
        row(
            "orders charged",
            self.charged as u64,
            "in the ledger, of which",
        )?;
        for (worker, count) in &self.by_worker {
            row(&format!("  by {worker}"), *count, "")?;
        }
        row("lost", lost as u64, "orders without a charge")?;
        row("doubled", doubled as u64, "orders charged more than once")?;
        row("dead", self.dead, "messages in the dead-letter queue")?;
        writeln!(
            f,
            "\ndemo: orders={} deliveries={} executed={} duplicates={} lost={lost} doubled={doubled} dead={}",
            self.orders,
            self.deliveries,
            self.charged,
            self.outcomes.get("duplicate").copied().unwrap_or_default(),
            self.dead
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tally::tally, *};

    /// The charges are pairs of an order and a worker.
    fn report(orders: &[&str], lines: &[&str], ledger: &[(&str, &str)]) -> Report {
        let orders: Vec<_> = orders.iter().map(ToString::to_string).collect();
        let charge = |&(order, worker): &(&str, &str)| Charge {
            order_id: order.to_owned(),
            worker: worker.to_owned(),
        };
        let ledger = ledger.iter().map(charge).collect();
        let delivered = 2 * orders.len() as u64;
        Report::new(&orders, 2, delivered, &tally(lines), ledger)
    }

    #[test]
    fn every_order_charged_once_is_what_is_promised() {
        let lines = [
            r#"{"outcome":"executed","key":"c:a","redelivered":true,"settlement":"ack"}"#,
            r#"{"outcome":"duplicate","key":"c:a","redelivered":false,"settlement":"ack"}"#,
        ];
        let report = report(&["a"], &lines, &[("a", "w"), ("of another run", "w")]);
        let figures =
            "\ndemo: orders=1 deliveries=3 executed=1 duplicates=1 lost=0 doubled=0 dead=0\n";
        assert!(report.to_string().ends_with(figures), "{report}");
        assert_eq!(report.unreported, 1);
        report.verdict().expect("all is well");
    }

    #[test]
    fn an_order_without_a_charge_is_lost_unless_it_is_dead() {
        let dead = r#"{"outcome":"rejected","key":"c:b","redelivered":false,"settlement":"dead-letter (rejected)"}"#;
        let report = report(&["a", "b"], &[dead], &[]);
        let error = report.verdict().expect_err("an order is lost").to_string();
        assert_eq!(error, "1 orders are lost (a), 0 are doubled ()");
        assert_eq!(report.dead, 1);
    }

    #[test]
    fn two_charges_of_one_order_are_a_double() {
        let report = report(&["a"], &[], &[("a", "w"), ("a", "v")]);
        assert_eq!(
            (report.charged, &report.doubled[..]),
            (1, &["a".to_owned()][..])
        );
        report.verdict().expect_err("an order is doubled");
    }
}
