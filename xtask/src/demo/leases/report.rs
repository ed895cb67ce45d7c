//! What the demonstration showed: a few lines for people, and one line of figures.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;

use super::{answers::Answers, thief::Loot};
use idem_servers::{Error, Result};

/// How many requests are named of those that should not be.
const NAMED: usize = 5;

/// The leases that the server has granted.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    by_name: BTreeMap<String, Vec<i64>>,
}

#[derive(Deserialize)]
struct Row {
    lease: i64,
    name: String,
}

impl Ledger {
    /// The names of a run's leases begin with the run's.
    pub(super) fn parse(rows: &str, run: &str) -> serde_json::Result<Self> {
        let mut ledger = Self::default();
        for line in rows.lines() {
            let row: Row = serde_json::from_str(line)?;
            if row.name.starts_with(run) {
                ledger.by_name.entry(row.name).or_default().push(row.lease);
            }
        }
        Ok(ledger)
    }

    fn leases(&self, name: &str) -> &[i64] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

#[derive(Debug)]
pub(super) struct Report {
    requests: usize,
    replies: usize,
    executed: usize,
    replayed: u64,
    /// Asked for and not there, or answered with a lease that is not there.
    lost: Vec<String>,
    /// There twice, or granted to a client that had it: its request was run again.
    doubled: Vec<String>,
    loot: Loot,
    unanswered: Option<String>,
}

impl Report {
    pub(super) fn new(names: &[String], answers: &Answers, ledger: &Ledger, loot: Loot) -> Self {
        let is_lost = |name: &&String| {
            let there = ledger.leases(name);
            there.is_empty() || answers.leases(name).any(|lease| !there.contains(&lease))
        };
        let is_doubled =
            |name: &&String| ledger.leases(name).len() > 1 || answers.taken_by(name).is_some();
        let unanswered = answers.unanswered();
        Self {
            requests: names.len(),
            replies: answers.replies(),
            executed: ledger.by_name.values().map(Vec::len).sum(),
            replayed: answers.replayed(),
            lost: names.iter().filter(is_lost).cloned().collect(),
            doubled: names.iter().filter(is_doubled).cloned().collect(),
            loot,
            unanswered: unanswered.map(|(name, error)| format!("{name}: {error}")),
        }
    }

    /// # Errors
    ///
    /// A request was lost, doubled or not answered.
    pub(super) fn verdict(&self) -> Result<()> {
        let named = |names: &[String]| {
            let named: Vec<_> = names.iter().take(NAMED).cloned().collect();
            named.join(", ")
        };
        let why = self.unanswered.as_deref().unwrap_or("nothing was said");
        if !self.lost.is_empty() || !self.doubled.is_empty() {
            return Err(Error::Unmet(format!(
                "{} requests are lost ({}; {why}), {} are doubled ({})",
                self.lost.len(),
                named(&self.lost),
                self.doubled.len(),
                named(&self.doubled)
            )));
        }
        if self.replies < self.requests {
            return Err(Error::Unmet(format!(
                "{} requests were not answered ({why})",
                self.requests - self.replies
            )));
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loot {
            delivered,
            dropped,
            cut,
        } = self.loot;
        writeln!(
            f,
            "{} messages were on their way to the client: {delivered} arrived, {dropped} were dropped, \
             {cut} times the client was cut off instead",
            delivered + dropped + cut
        )?;
        writeln!(
            f,
            "leases: requests={} replies={} executed={} replayed={} lost={} doubled={}",
            self.requests,
            self.replies,
            self.executed,
            self.replayed,
            self.lost.len(),
            self.doubled.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{super::answers::answers, *};

    const LOOT: Loot = Loot {
        delivered: 3,
        dropped: 2,
        cut: 1,
    };

    fn report(said: &[&str], ledger: &str) -> Report {
        let names = ["r-1", "r-2"].map(str::to_owned);
        let ledger = Ledger::parse(ledger, "r-").expect("valid rows");
        Report::new(&names, &answers(said), &ledger, LOOT)
    }

    fn last_line(report: &Report) -> String {
        let text = report.to_string();
        text.lines().last().expect("there are lines").to_owned()
    }

    const ONE: &str = r#"{"name":"r-1","lease":1,"replayed":false}"#;
    const TWO: &str = r#"{"name":"r-2","lease":2,"replayed":true}"#;
    const BOTH: &str = concat!(
        r#"{"lease":1,"name":"r-1","holder":"h"}"#,
        "\n",
        r#"{"lease":2,"name":"r-2","holder":"h"}"#,
        "\n",
        r#"{"lease":3,"name":"other","holder":"h"}"#,
    );

    #[test]
    fn all_is_well_if_every_request_was_done_once_and_answered() {
        let report = report(&[ONE, TWO], BOTH);
        assert_eq!(
            last_line(&report),
            "leases: requests=2 replies=2 executed=2 replayed=1 lost=0 doubled=0"
        );
        report.verdict().expect("all is well");
    }

    #[test]
    fn a_lease_that_is_not_there_is_lost() {
        let first = BOTH.lines().next().expect("there are lines");
        let report = report(&[ONE, TWO], first);
        assert!(last_line(&report).ends_with("executed=1 replayed=1 lost=1 doubled=0"));
        let verdict = report.verdict().expect_err("one is lost").to_string();
        assert!(verdict.contains("r-2"), "{verdict}");
    }

    #[test]
    fn a_client_that_is_told_it_has_the_lease_was_run_twice() {
        let taken = r#"{"name":"r-2","taken_by":"h"}"#;
        let report = report(&[ONE, taken], BOTH);
        assert!(last_line(&report).ends_with("lost=0 doubled=1"));
        report.verdict().expect_err("one is doubled");
    }

    #[test]
    fn a_request_without_an_answer_is_told() {
        let unanswered = r#"{"name":"r-2","error":"no reply came"}"#;
        let report = report(&[ONE, unanswered], BOTH);
        assert!(last_line(&report).contains("replies=1"));
        let verdict = report.verdict().expect_err("one is not answered");
        assert!(verdict.to_string().contains("no reply came"), "{verdict}");
    }
}
