//! Keys that end as fast as they come, with and without a worker that purges them.

mod growth;

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

/// With or without purging: all rounds.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    purges: bool,
    /// The median of the rounds.
    msgs_per_s: f64,
    rounds: Vec<Forgetting>,
}

pub(super) fn measure(arena: &Arena, plan: &Plan) -> Result<Vec<Row>> {
    let messages = plan.messages_to_forget();
    let mut figures = [(false, Vec::new()), (true, Vec::new())];
    for round in 1..=plan.rounds() {
        for (purges, rounds) in &mut figures {
            eprintln!("purge, round {round}: {}", with(*purges));
            arena.load(messages, QueueKind::Classic)?;
            let mut options = vec!["--prefetch", PREFETCH];
            options.extend(purges.then_some("--purges"));
            rounds.push(arena.let_act(CONTESTANT, "purge", messages, &options)?);
        }
    }
    let rows = figures.map(|(purges, rounds)| Row::new(purges, rounds));
    Ok(rows.into())
}

impl Row {
    pub(super) fn new(purges: bool, rounds: Vec<Forgetting>) -> Self {
        let per_second = |round: &Forgetting| f64::from(round.messages) / round.seconds;
        let msgs_per_s = median(rounds.iter().map(per_second)).expect("there is a round");
        Self {
            purges,
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

fn with(purges: bool) -> &'static str {
    if purges {
        "purging every second"
    } else {
        "without purging"
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(1, &["", "msg/s", "ratio", "most expired", "at the end"]);
    for row in rows {
        let last = row.rounds.last().and_then(|round| round.backlog.last());
        let at_the_end = last.map_or(0, |backlog| backlog.expired);
        table.row(vec![
            with(row.purges).to_owned(),
            grouped(row.msgs_per_s),
            format!("{:.2}", row.msgs_per_s / rows[0].msgs_per_s),
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
    let verdict = |row: &Row| match row.growth() {
        Growth::KeepsUp => "met: purging keeps up: what waits does not grow".to_owned(),
        Growth::Grows => "MISSED: purging does not keep up: what waits grows".to_owned(),
        Growth::Unknown => format!(
            "unknown: whether purging keeps up: records ended for less than {WINDOW} s, take more --messages"
        ),
    };
    rows.iter().filter(|row| row.purges).map(verdict).collect()
}

/// A line for programs.
pub(super) fn line(row: &Row) -> String {
    let growth = match row.growth() {
        Growth::Grows => "yes",
        Growth::KeepsUp => "no",
        Growth::Unknown => "unknown",
    };
    format!(
        "part=purge purges={} msgs_per_s={:.0} most_expired={} grows={growth}",
        row.purges,
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

    fn row(purges: bool, rounds: &[&[u64]]) -> Row {
        let round = |counts: &&[u64]| Forgetting {
            messages: 1_000,
            seconds: 2.0,
            backlog: backlog(counts),
        };
        Row::new(purges, rounds.iter().map(round).collect())
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
            let verdicts = verdicts(&[row(false, &[growing]), row(true, rounds)]);
            assert_eq!(verdicts.len(), 1, "{verdicts:?}");
            assert!(verdicts[0].starts_with(expected), "{verdicts:?}");
        }
        assert_eq!(
            line(&row(true, &[steady])),
            "part=purge purges=true msgs_per_s=500 most_expired=90 grows=no"
        );
    }
}
