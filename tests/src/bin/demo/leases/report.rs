//! What the client was answered, and what the demonstration showed: a few lines for people, and one line of figures.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Result, ensure};
use serde::Deserialize;

/// How many requests are named of those that should not be.
const NAMED: usize = 5;

/// What the client prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Lease {
        name: String,
        lease: i64,
        replayed: bool,
    },
    /// The client is the only one that asks, so it has been granted the lease before.
    Taken {
        name: String,
        #[serde(rename = "taken_by")]
        _by: String,
    },
    Unanswered {
        name: String,
        error: String,
    },
    Done {
        done: bool,
    },
}

/// All of them, by the lease's name.
#[derive(Debug, Default)]
pub(super) struct Answers {
    granted: BTreeMap<String, BTreeSet<i64>>,
    taken: BTreeSet<String>,
    unanswered: BTreeMap<String, String>,
    replayed: u64,
    /// Whether the client has nothing left to ask.
    pub(super) done: bool,
}

impl Answers {
    pub(super) fn note(&mut self, answer: Answer) {
        match answer {
            Answer::Lease {
                name,
                lease,
                replayed,
            } => {
                self.granted.entry(name).or_default().insert(lease);
                self.replayed += u64::from(replayed);
            }
            Answer::Taken { name, .. } => drop(self.taken.insert(name)),
            Answer::Unanswered { name, error } => drop(self.unanswered.insert(name, error)),
            Answer::Done { done } => self.done = done,
        }
    }

    /// Requests that were answered, each once.
    pub(super) fn replies(&self) -> usize {
        let granted = self.granted.keys();
        granted.chain(&self.taken).collect::<BTreeSet<_>>().len()
    }
}

/// A lease, as the server's ledger has it.
#[derive(Debug, Deserialize)]
pub(super) struct Granted {
    lease: i64,
    name: String,
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
    /// How many messages arrived, were dropped, cut the client off.
    deliveries: [u64; 3],
    unanswered: Option<String>,
}

impl Report {
    /// A ledger on a server that outlives the run may hold leases of others.
    pub(super) fn new(
        names: &[String],
        answers: &Answers,
        ledger: Vec<Granted>,
        deliveries: [u64; 3],
    ) -> Self {
        let mut there: BTreeMap<&String, Vec<i64>> =
            names.iter().map(|name| (name, Vec::new())).collect();
        for granted in ledger {
            if let Some(leases) = there.get_mut(&granted.name) {
                leases.push(granted.lease);
            }
        }
        let is_lost = |name: &&String| {
            let mut answered = answers.granted.get(*name).into_iter().flatten();
            there[name].is_empty() || answered.any(|lease| !there[name].contains(lease))
        };
        let is_doubled = |name: &&String| there[name].len() > 1 || answers.taken.contains(*name);
        let unanswered = answers.unanswered.first_key_value();
        Self {
            requests: names.len(),
            replies: answers.replies(),
            executed: there.values().map(Vec::len).sum(),
            replayed: answers.replayed,
            lost: names.iter().filter(is_lost).cloned().collect(),
            doubled: names.iter().filter(is_doubled).cloned().collect(),
            deliveries,
            unanswered: unanswered.map(|(name, error)| format!("{name}: {error}")),
        }
    }

    /// # Errors
    ///
    /// A request was lost, doubled or not answered.
    pub(super) fn verdict(&self) -> Result<()> {
        let named = |names: &[String]| names[..names.len().min(NAMED)].join(", ");
        let why = self.unanswered.as_deref().unwrap_or("nothing was said");
        ensure!(
            self.lost.is_empty() && self.doubled.is_empty(),
            "{} requests are lost ({}; {why}), {} are doubled ({})",
            self.lost.len(),
            named(&self.lost),
            self.doubled.len(),
            named(&self.doubled)
        );
        let missing = self.requests.saturating_sub(self.replies);
        ensure!(missing == 0, "{missing} requests were not answered ({why})");
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [delivered, dropped, cut] = self.deliveries;
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
    use super::*;

    const ONE: &str = r#"{"name":"r-1","lease":1,"replayed":false}"#;
    const TWO: &str = r#"{"name":"r-2","lease":2,"replayed":true}"#;
    const BOTH: &[(i64, &str)] = &[(1, "r-1"), (2, "r-2"), (3, "of another run")];

    fn report(said: &[&str], ledger: &[(i64, &str)]) -> Report {
        let mut answers = Answers::default();
        for line in said {
            answers.note(serde_json::from_str(line).expect("it is an answer"));
        }
        let granted = |&(lease, name): &(i64, &str)| Granted {
            lease,
            name: name.to_owned(),
        };
        let ledger = ledger.iter().map(granted).collect();
        Report::new(
            &["r-1", "r-2"].map(str::to_owned),
            &answers,
            ledger,
            [3, 2, 1],
        )
    }

    fn assert_ends(report: &Report, expected: &str) {
        assert!(report.to_string().ends_with(expected), "{report}");
    }

    #[test]
    fn all_is_well_if_every_request_was_done_once_and_answered() {
        let twice = r#"{"name":"r-2","lease":2,"replayed":false}"#;
        let report = report(&[ONE, twice, TWO], BOTH);
        let figures = "\nleases: requests=2 replies=2 executed=2 replayed=1 lost=0 doubled=0\n";
        assert_ends(&report, figures);
        report.verdict().expect("all is well");
    }

    #[test]
    fn a_lease_that_is_not_there_is_lost() {
        let report = report(&[ONE, TWO], &BOTH[..1]);
        assert_ends(&report, "executed=1 replayed=1 lost=1 doubled=0\n");
        let verdict = report.verdict().expect_err("one is lost").to_string();
        assert!(verdict.contains("r-2"), "{verdict}");
    }

    #[test]
    fn a_client_that_is_told_it_has_the_lease_was_run_twice() {
        let report = report(&[ONE, r#"{"name":"r-2","taken_by":"h"}"#], BOTH);
        assert_ends(&report, "lost=0 doubled=1\n");
        report.verdict().expect_err("one is doubled");
    }

    #[test]
    fn a_request_without_an_answer_is_told() {
        let report = report(&[ONE, r#"{"name":"r-2","error":"no reply came"}"#], BOTH);
        assert_ends(
            &report,
            "replies=1 executed=2 replayed=0 lost=0 doubled=0\n",
        );
        let verdict = report.verdict().expect_err("one is not answered");
        assert!(verdict.to_string().contains("no reply came"), "{verdict}");
    }

    #[test]
    fn the_client_says_when_it_has_done() {
        let report = r#"{"done":true,"unanswered":0}"#;
        let answer: Answer = serde_json::from_str(report).expect("it is an answer");
        let mut answers = Answers::default();
        answers.note(answer);
        assert!(answers.done);
        let begun = r#"{"session":"s","begun":0,"in_flight":0}"#;
        serde_json::from_str::<Answer>(begun).expect_err("it is no answer");
    }
}
