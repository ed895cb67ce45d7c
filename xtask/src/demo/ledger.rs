//! The charges that the workers made.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Programs;
use idem_servers::{Error, Result};

/// The charges of one run: a server that outlives it may hold those of others.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    by_order: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Row {
    order_id: String,
    worker: String,
}

impl Ledger {
    pub(crate) fn read(programs: &Programs) -> Result<Self> {
        let output = programs
            .ledger()
            .output()
            .map_err(Error::io("start order-worker"))?;
        if !output.status.success() {
            return Err(Error::command("order-worker ledger", &output));
        }
        Self::parse(&String::from_utf8_lossy(&output.stdout), programs.run())
            .map_err(|error| Error::io("understand `order-worker ledger`")(error.into()))
    }

    /// The names of a run's orders begin with the run's.
    pub(crate) fn parse(rows: &str, run: &str) -> serde_json::Result<Self> {
        let mut ledger = Self::default();
        for line in rows.lines() {
            let row: Row = serde_json::from_str(line)?;
            if !row.order_id.starts_with(run) {
                continue;
            }
            ledger
                .by_order
                .entry(row.order_id)
                .or_default()
                .push(row.worker);
        }
        Ok(ledger)
    }

    /// Orders that were charged, however often.
    pub(crate) fn charged(&self) -> usize {
        self.by_order.len()
    }

    pub(crate) fn has(&self, order: &str) -> bool {
        self.by_order.contains_key(order)
    }

    /// Orders that were charged more than once.
    pub(crate) fn doubled(&self) -> impl Iterator<Item = &str> {
        self.by_order
            .iter()
            .filter(|(_, charges)| charges.len() > 1)
            .map(|(order, _)| order.as_str())
    }

    /// How many charges each worker made.
    pub(crate) fn by_worker(&self) -> BTreeMap<&str, usize> {
        let mut workers = BTreeMap::new();
        for worker in self.by_order.values().flatten() {
            *workers.entry(worker.as_str()).or_default() += 1;
        }
        workers
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;

    #[test]
    fn charges_of_other_runs_do_not_count() {
        let rows = concat!(
            r#"{"order_id":"demo-a-1","worker":"w"}"#,
            "\n",
            r#"{"order_id":"demo-b-1","worker":"w"}"#,
        );
        let ledger = Ledger::parse(rows, "demo-a").expect("valid rows");
        assert_eq!(ledger.charged(), 1);
        assert!(ledger.has("demo-a-1"));
    }
}
