//! What the service said, what its ledger says, and what that means: a table for people and one line of figures.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// So many accounts share the postings.
const ACCOUNTS: i64 = 10;
/// How many postings are named of those that should not be.
const NAMED: usize = 5;

/// As the service reads it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Posting {
    #[serde(rename = "posting_id")]
    id: String,
    account: String,
    cents: i64,
}

impl Posting {
    /// The accounts are those of this run alone.
    pub(super) fn new(run: &str, number: i64, id: &str) -> Self {
        Self {
            id: id.to_owned(),
            account: format!("{run}-{}", number % ACCOUNTS),
            cents: number,
        }
    }

    /// Which of the accounts it is for.
    pub(super) fn account_number(&self) -> usize {
        usize::try_from(self.cents % ACCOUNTS).expect("postings are numbered from 1")
    }
}

/// What the service says of a message that it is done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Settled {
    Booked(String),
    Skipped,
    /// Anything else.
    Other,
}

impl Settled {
    /// `executed     ledger.book:p-17`
    pub(super) fn read(line: &str) -> Option<Self> {
        let (outcome, key) = line.split_once(' ')?;
        if outcome == "done:" {
            return None;
        }
        let id = key.trim_start().strip_prefix("ledger.book:");
        Some(match (outcome, id) {
            ("executed", Some(id)) => Self::Booked(id.to_owned()),
            ("duplicate", Some(_)) => Self::Skipped,
            _ => Self::Other,
        })
    }
}

/// What the service is done with.
#[derive(Debug, Default)]
pub(super) struct Tally {
    booked: BTreeSet<String>,
    skipped: u64,
    /// How much each service has said.
    said: [u64; 2],
}

impl Tally {
    /// The service at this place has said it.
    pub(super) fn count(&mut self, place: usize, settled: Settled) {
        self.said[place] += 1;
        match settled {
            Settled::Booked(id) => {
                self.booked.insert(id);
            }
            Settled::Skipped => self.skipped += 1,
            Settled::Other => {}
        }
    }

    /// How much each service has said.
    pub(super) fn said(&self) -> [u64; 2] {
        self.said
    }

    /// Postings that a service said it has booked. It is killed before it says so of some.
    pub(super) fn booked(&self) -> u64 {
        self.booked.len() as u64
    }
}

/// What is in the database for one posting.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    posting_id: String,
    account: String,
    booked: u64,
    balance: i64,
}

#[derive(Debug)]
pub(super) struct Report {
    postings: usize,
    applied: usize,
    skipped: u64,
    poison: usize,
    dead: u32,
    lost: Vec<String>,
    doubled: Vec<String>,
    /// Accounts whose balance is not the sum of their postings.
    wrong: Vec<String>,
}

impl Report {
    /// A ledger on a server that outlives the run may hold postings of others. Of poison, how many messages there were,
    /// and how many dead letters there are.
    pub(super) fn new(
        postings: &[Posting],
        (poison, dead): (usize, u32),
        tally: &Tally,
        ledger: Vec<Row>,
    ) -> Self {
        let mut balances = BTreeMap::new();
        let mut booked = BTreeMap::new();
        for row in ledger {
            balances.insert(row.account, row.balance);
            booked.insert(row.posting_id, row.booked);
        }
        let mut expected = BTreeMap::<_, i64>::new();
        for posting in postings {
            *expected.entry(&posting.account).or_default() += posting.cents;
        }
        let those = |wanted: &dyn Fn(u64) -> bool| -> Vec<_> {
            let ids = postings.iter().map(|posting| &posting.id);
            ids.filter(|id| wanted(booked.get(*id).copied().unwrap_or(0)))
                .cloned()
                .collect()
        };
        let wrong = expected
            .into_iter()
            .filter(|(account, sum)| balances.get(*account) != Some(sum));
        Self {
            postings: postings.len(),
            applied: those(&|times| times > 0).len(),
            skipped: tally.skipped,
            poison,
            dead,
            lost: those(&|times| times == 0),
            doubled: those(&|times| times > 1),
            wrong: wrong.map(|(account, _)| account.clone()).collect(),
        }
    }

    /// # Errors
    ///
    /// A posting was lost or doubled, a balance is wrong, or poison has left no dead letter.
    pub(super) fn verdict(&self) -> Result<()> {
        let named = |names: &[String]| names[..names.len().min(NAMED)].join(", ");
        ensure!(
            self.lost.is_empty() && self.doubled.is_empty(),
            "{} postings are lost ({}), {} are doubled ({})",
            self.lost.len(),
            named(&self.lost),
            self.doubled.len(),
            named(&self.doubled)
        );
        ensure!(
            self.wrong.is_empty(),
            "balances are not the sum of their postings: {}",
            named(&self.wrong)
        );
        let (poison, dead) = (self.poison, self.dead);
        ensure!(
            dead as usize >= poison,
            "{poison} messages cannot be read, and there are {dead} dead letters"
        );
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            postings,
            applied,
            skipped,
            poison,
            dead,
            ..
        } = self;
        let (lost, doubled) = (self.lost.len(), self.doubled.len());
        writeln!(f)?;
        for (name, count, note) in [
            ("postings", *postings as u64, "one in three published twice"),
            ("applied", *applied as u64, "of these: in the balances"),
            ("skipped", *skipped, "messages that were duplicates"),
            ("poison", *poison as u64, "messages that are no postings"),
            ("dead", u64::from(*dead), "dead letters of these"),
            ("lost", lost as u64, "postings in no balance"),
            ("doubled", doubled as u64, "postings booked more than once"),
        ] {
            writeln!(f, "  {name:<16} {count:>8}   {note}")?;
        }
        writeln!(
            f,
            "\nstream: postings={postings} applied={applied} skipped={skipped} lost={lost} doubled={doubled}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 5] = [
        "executed     ledger.book:p-1",
        "undecodable  (no key)",
        // Its service was killed before it could say that it had booked it.
        "duplicate    ledger.book:p-2",
        "duplicate    ledger.book:p-1",
        "done: deliveries=3 executed=1 duplicate=2",
    ];

    /// The ledger holds postings, how often they are booked, and the balance of the account.
    fn report(dead: u32, ledger: &[(&str, u64, i64)]) -> Report {
        let postings = [(10, "p-1"), (20, "p-2")];
        let postings = postings.map(|(number, id)| Posting::new("run", number, id));
        let mut tally = Tally::default();
        for settled in LINES.iter().filter_map(|line| Settled::read(line)) {
            tally.count(0, settled);
        }
        let rows = ledger.iter().map(|&(id, booked, balance)| Row {
            posting_id: id.to_owned(),
            account: "run-0".to_owned(),
            booked,
            balance,
        });
        Report::new(&postings, (1, dead), &tally, rows.collect())
    }

    #[test]
    fn postings_that_are_booked_once_are_what_is_promised() {
        let report = report(2, &[("p-1", 1, 30), ("p-2", 1, 30)]);
        let figures = "\nstream: postings=2 applied=2 skipped=2 lost=0 doubled=0\n";
        assert!(report.to_string().ends_with(figures), "{report}");
        report.verdict().expect("all is well");
    }

    #[test]
    fn a_posting_that_is_not_booked_or_twice_is_an_error() {
        for (ledger, expected) in [
            (
                &[("p-1", 1, 10)][..],
                "1 postings are lost (p-2), 0 are doubled ()",
            ),
            (
                &[("p-1", 1, 50), ("p-2", 2, 50)],
                "0 postings are lost (), 1 are doubled (p-2)",
            ),
        ] {
            let error = report(1, ledger).verdict().expect_err("it is one");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_balance_that_is_not_the_sum_of_its_postings_is_an_error() {
        let report = report(1, &[("p-1", 1, 31), ("p-2", 1, 31)]);
        let error = report.verdict().expect_err("it is one").to_string();
        assert_eq!(error, "balances are not the sum of their postings: run-0");
    }

    #[test]
    fn poison_without_a_dead_letter_is_an_error() {
        let report = report(0, &[("p-1", 1, 30), ("p-2", 1, 30)]);
        report.verdict().expect_err("it is one");
    }
}
