//! Keys that end as fast as they come, with and without a worker that purges them.

mod growth;

use std::fmt;

use serde::{Deserialize, Serialize};

use self::growth::{Growth, WINDOW, growth};
use super::{
    super::{
        arena::Arena,
        consume::{Contestant, QueueKind},
        median::median,
        table::{Table, grouped},
    },
    plan::Plan,
};
use idem_servers::Result;

pub(super) const CONTESTANT: Contestant = Contestant::IdemPostgres;
const PREFETCH: &str = "256";

/// A queue that was consumed with keys that are soon forgotten.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Forgetting {
    /// How many messages were in the queue, each of its own order.
    pub messages: u32,
    /// From the first delivery until the broker had everything acknowledged.
    pub seconds: f64,
    /// Counted meanwhile, now and then.
    pub backlog: Vec<Backlog>,
}

/// How many records need not be remembered any longer, and are there.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
pub struct Backlog {
    /// When they were counted, by a clock of the run.
    pub seconds: f64,
    /// How many there were.
    pub expired: u64,
}

/// What goes on beside the consumer.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub(super) struct Beside {
    /// How many purge every second.
    purgers: u8,
    /// Whether a transaction is open all the time, so that PostgreSQL cleans nothing up.
    held: bool,
}

const BESIDE: [Beside; 6] = [
    beside(0, false),
    beside(1, false),
    beside(3, false),
    beside(10, false),
    beside(0, true),
    beside(1, true),
];

pub(super) const fn beside(purgers: u8, held: bool) -> Beside {
    Beside { purgers, held }
}

/// What purging may cost.
const AIM: f64 = 0.97;

/// Consumed beside the same thing: all rounds.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    beside: Beside,
    /// The median of the rounds.
    msgs_per_s: f64,
    rounds: Vec<Forgetting>,
}

pub(super) fn measure(arena: &Arena, plan: &Plan) -> Result<Vec<Row>> {
    let messages = plan.messages_to_forget();
    let measured = BESIDE.into_iter();
    let measured = measured.filter(|it| it.held || !plan.only_held());
    let mut figures: Vec<_> = measured.map(|beside| (beside, Vec::new())).collect();
    for round in 1..=plan.rounds() {
        for (beside, rounds) in &mut figures {
            eprintln!("purge, round {round}: {beside}");
            arena.load(messages, QueueKind::Classic)?;
            let purgers = beside.purgers.to_string();
            let mut options = vec!["--prefetch", PREFETCH, "--purgers", &purgers];
            options.extend(beside.held.then_some("--held"));
            rounds.push(arena.let_act(CONTESTANT, "purge", messages, &options)?);
        }
    }
    let figures = figures.into_iter();
    let rows = figures.map(|(beside, rounds)| Row::new(beside, rounds));
    Ok(rows.collect())
}

impl Row {
    pub(super) fn new(beside: Beside, rounds: Vec<Forgetting>) -> Self {
        let per_second = |round: &Forgetting| f64::from(round.messages) / round.seconds;
        let msgs_per_s = median(rounds.iter().map(per_second)).expect("there is a round");
        Self {
            beside,
            msgs_per_s,
            rounds,
        }
    }

    /// The greatest backlog of any round.
    fn peak(&self) -> u64 {
        let all = self.rounds.iter().flat_map(|round| &round.backlog);
        all.map(|backlog| backlog.expired).max().unwrap_or_default()
    }

    /// Whether it grew in any round.
    fn growth(&self) -> Growth {
        let rounds = || self.rounds.iter().map(|round| growth(&round.backlog));
        let worst = [Growth::Grows, Growth::Unknown];
        let found = worst
            .into_iter()
            .find(|worst| rounds().any(|of| of == *worst));
        found.unwrap_or(Growth::KeepsUp)
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.purgers {
            0 => f.write_str("without purging")?,
            1 => f.write_str("purging every second")?,
            several => write!(f, "{several} that purge every second")?,
        }
        f.write_str(if self.held { ", transaction held" } else { "" })
    }
}

/// Compared with the same without purging.
fn ratio(row: &Row, rows: &[Row]) -> f64 {
    let without = beside(0, row.beside.held);
    let base = rows.iter().find(|row| row.beside == without);
    base.map_or(1.0, |base| row.msgs_per_s / base.msgs_per_s)
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(1, &["", "msg/s", "ratio", "most expired", "at the end"]);
    for row in rows {
        let last = row.rounds.last().and_then(|round| round.backlog.last());
        let at_the_end = last.map_or(0, |backlog| backlog.expired);
        table.row(vec![
            row.beside.to_string(),
            grouped(row.msgs_per_s),
            format!("{:.2}", ratio(row, rows)),
            count(row.peak()),
            count(at_the_end),
        ]);
    }
    table
}

/// What waited over time, in the last round.
pub(super) fn course(row: &Row) -> Table {
    let mut table = Table::new(0, &["after s", "expired"]);
    let backlog = row.rounds.last().map(|round| &round.backlog[..]);
    for backlog in backlog.unwrap_or_default() {
        let after = format!("{:.1}", backlog.seconds);
        table.row(vec![after, count(backlog.expired)]);
    }
    table
}

/// Whether purging keeps up.
pub(super) fn verdicts(rows: &[Row]) -> Vec<String> {
    let keeps_up = |row: &Row| match row.growth() {
        Growth::KeepsUp => format!("met: {} keeps up: what waits does not grow", row.beside),
        Growth::Grows => format!("MISSED: {} does not keep up: what waits grows", row.beside),
        Growth::Unknown => format!(
            "unknown: whether {} keeps up: records ended for less than {WINDOW} s, take more --messages",
            row.beside
        ),
    };
    let costs = |row: &Row| {
        let ratio = ratio(row, rows);
        let verdict = if ratio >= AIM { "met" } else { "MISSED" };
        let beside = row.beside;
        format!("{verdict}: {beside}: {ratio:.2} of the same without, aim {AIM}")
    };
    let purging = || rows.iter().filter(|row| row.beside.purgers > 0);
    purging()
        .map(keeps_up)
        .chain(purging().map(costs))
        .collect()
}

/// A line for programs.
pub(super) fn line(row: &Row) -> String {
    let growth = match row.growth() {
        Growth::Grows => "yes",
        Growth::KeepsUp => "no",
        Growth::Unknown => "unknown",
    };
    format!(
        "part=purge purgers={} held={} msgs_per_s={:.0} most_expired={} grows={growth}",
        row.beside.purgers,
        row.beside.held,
        row.msgs_per_s,
        row.peak()
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no backlog is so long that it matters"
)]
fn count(records: u64) -> String {
    grouped(records as f64)
}

#[cfg(test)]
mod tests {
    use super::{growth::tests::backlog, *};

    fn row(purgers: u8, rounds: &[&[u64]]) -> Row {
        let round = |counts: &&[u64]| Forgetting {
            messages: 1_000,
            seconds: 2.0,
            backlog: backlog(counts),
        };
        Row::new(beside(purgers, false), rounds.iter().map(round).collect())
    }

    #[test]
    fn purging_keeps_up_if_it_does_in_each_round() {
        let steady: &[u64] = &[10, 90, 10, 90, 10, 90];
        let growing: &[u64] = &[10, 20, 30, 40, 50, 60];
        let short: &[u64] = &[10, 20];
        for (rounds, expected) in [
            (&[steady, steady][..], "met: "),
            (&[steady, growing, short], "MISSED: "),
            (&[steady, short], "unknown: "),
        ] {
            let verdicts = verdicts(&[row(0, &[growing]), row(1, rounds)]);
            assert_eq!(verdicts.len(), 2, "{verdicts:?}");
            assert!(verdicts[0].starts_with(expected), "{verdicts:?}");
            assert_eq!(
                verdicts[1],
                "met: purging every second: 1.00 of the same without, aim 0.97"
            );
        }
        assert_eq!(
            line(&row(1, &[steady])),
            "part=purge purgers=1 held=false msgs_per_s=500 most_expired=90 grows=no"
        );
    }
}
