//! What the demonstration showed: a table for people and one line of figures.

use std::fmt;

use super::{ledger::Ledger, tally::Tally};
use idem_servers::{Error, Result};

/// How many orders are named of those that should not be.
const NAMED: usize = 5;

#[derive(Debug)]
pub(crate) struct Report {
    orders: usize,
    copies: u32,
    deliveries: u64,
    unreported: u64,
    outcomes: Vec<(String, u64)>,
    duplicates: u64,
    charged: usize,
    by_worker: Vec<(String, usize)>,
    lost: Vec<String>,
    doubled: Vec<String>,
    dead: u64,
}

impl Report {
    /// `delivered` are the messages of which it is known that they were delivered.
    pub(crate) fn new(
        orders: &[String],
        copies: u32,
        delivered: u64,
        tally: &Tally,
        ledger: &Ledger,
    ) -> Self {
        let deliveries = tally.deliveries(delivered);
        let is_lost = |order: &&String| !ledger.has(order) && !tally.is_dead(order);
        Self {
            orders: orders.len(),
            copies,
            deliveries,
            unreported: deliveries - tally.reported(),
            outcomes: tally
                .outcomes()
                .map(|(outcome, count)| (outcome.to_owned(), count))
                .collect(),
            duplicates: tally.outcome("duplicate"),
            charged: ledger.charged(),
            by_worker: ledger
                .by_worker()
                .into_iter()
                .map(|(worker, count)| (worker.to_owned(), count))
                .collect(),
            lost: orders.iter().filter(is_lost).cloned().collect(),
            doubled: ledger.doubled().map(str::to_owned).collect(),
            dead: tally.dead(),
        }
    }

    /// # Errors
    ///
    /// An order was lost or doubled.
    pub(crate) fn verdict(&self) -> Result<()> {
        if self.lost.is_empty() && self.doubled.is_empty() {
            return Ok(());
        }
        let named = |orders: &[String]| {
            orders
                .iter()
                .take(NAMED)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ")
        };
        Err(Error::Unmet(format!(
            "{} orders are lost ({}), {} are doubled ({})",
            self.lost.len(),
            named(&self.lost),
            self.doubled.len(),
            named(&self.doubled)
        )))
    }

    fn rows(&self) -> Vec<(String, u64, String)> {
        let row = |name: &str, count: u64, note: &str| (name.to_owned(), count, note.to_owned());
        let mut rows = vec![
            row(
                "orders",
                self.orders as u64,
                &format!("each published {} times, shuffled", self.copies),
            ),
            row("deliveries", self.deliveries, "of which"),
        ];
        rows.extend(
            self.outcomes
                .iter()
                .map(|(outcome, count)| row(&format!("  {outcome}"), *count, meaning(outcome))),
        );
        rows.push(row(
            "  unreported",
            self.unreported,
            "died with the worker that was killed; came again",
        ));
        rows.push(row(
            "orders charged",
            self.charged as u64,
            "in the ledger, of which",
        ));
        rows.extend(
            self.by_worker
                .iter()
                .map(|(worker, count)| row(&format!("  by {worker}"), *count as u64, "")),
        );
        rows.push(row(
            "lost",
            self.lost.len() as u64,
            "orders without a charge",
        ));
        rows.push(row(
            "doubled",
            self.doubled.len() as u64,
            "orders charged more than once",
        ));
        rows.push(row("dead", self.dead, "messages in the dead-letter queue"));
        rows
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
        for (name, count, note) in self.rows() {
            writeln!(
                f,
                "{}",
                format!("  {name:<16} {count:>8}   {note}").trim_end()
            )?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "demo: orders={} deliveries={} executed={} duplicates={} lost={} doubled={} dead={}",
            self.orders,
            self.deliveries,
            self.charged,
            self.duplicates,
            self.lost.len(),
            self.doubled.len(),
            self.dead
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::tally::tally;

    fn report(orders: &[&str], lines: &[&str], ledger: &str) -> Report {
        let orders: Vec<_> = orders.iter().map(ToString::to_string).collect();
        Report::new(
            &orders,
            2,
            2 * orders.len() as u64,
            &tally(lines),
            &Ledger::parse(ledger, "").expect("valid rows"),
        )
    }

    fn last_line(report: &Report) -> String {
        report
            .to_string()
            .lines()
            .last()
            .expect("a line")
            .to_owned()
    }

    #[test]
    fn every_order_charged_once_is_what_is_promised() {
        let lines = [
            r#"{"outcome":"executed","key":"c:a","redelivered":true,"settlement":"ack"}"#,
            r#"{"outcome":"duplicate","key":"c:a","redelivered":false,"settlement":"ack"}"#,
        ];
        let report = report(&["a"], &lines, r#"{"order_id":"a","worker":"w"}"#);
        let figures = "demo: orders=1 deliveries=3 executed=1 duplicates=1 lost=0 doubled=0 dead=0";
        assert_eq!(last_line(&report), figures);
        assert_eq!(report.unreported, 1);
        assert!(report.verdict().is_ok());
    }

    #[test]
    fn an_order_without_a_charge_is_lost_unless_it_is_dead() {
        let dead = r#"{"outcome":"rejected","key":"c:b","redelivered":false,"settlement":"dead-letter (rejected)"}"#;
        let report = report(&["a", "b"], &[dead], "");
        assert_eq!(report.lost, ["a"]);
        assert_eq!(report.dead, 1);
        let error = report.verdict().expect_err("an order is lost").to_string();
        assert_eq!(error, "1 orders are lost (a), 0 are doubled ()");
    }

    #[test]
    fn two_rows_of_one_order_are_a_double() {
        let rows = "{\"order_id\":\"a\",\"worker\":\"w\"}\n{\"order_id\":\"a\",\"worker\":\"v\"}";
        let report = report(&["a"], &[], rows);
        assert_eq!(report.doubled, ["a"]);
        assert_eq!(report.charged, 1);
        assert!(report.verdict().is_err());
    }
}
