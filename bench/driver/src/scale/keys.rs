//! Few and many completed keys in the table of a store.

use serde::Serialize;

use super::{
    super::{
        arena::Arena,
        consume::{Contestant, Finish, QueueKind},
        median::median,
        table::{Table, grouped},
    },
    plan::Plan,
};
use idem_servers::Result;

pub(super) const CONTESTANT: Contestant = Contestant::IdemPostgres;
const PREFETCH: &str = "256";
/// How many times as long many keys may take as few.
const SLOWDOWN: f64 = 1.3;

/// So many keys: the medians of the rounds.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    keys: u64,
    msgs_per_s: f64,
    /// Of each round.
    rounds: Vec<f64>,
    /// How many times as long as with the fewest keys.
    slowdown: f64,
}

pub(super) fn measure(arena: &Arena, plan: &Plan) -> Result<Vec<Row>> {
    let mut tables = Vec::new();
    for &keys in plan.keys() {
        eprintln!("keys: filling a table with {keys}");
        tables.push((keys, arena.filled_database(keys)?, Vec::new()));
    }
    // The first round finds nothing in any cache.
    for round in 0..=plan.rounds() {
        for (keys, url, rounds) in &mut tables {
            eprintln!("keys, round {round}: {keys}");
            let finish = consume(arena, url, plan)?;
            if round > 0 {
                rounds.push(finish.per_second());
            }
        }
        // So that none always comes after the same.
        tables.rotate_left(1);
    }
    tables.sort_unstable_by_key(|(keys, ..)| *keys);
    let figures = tables.into_iter().map(|(keys, _, rounds)| (keys, rounds));
    Ok(compare(figures))
}

/// Leaves the table as it was.
fn consume(arena: &Arena, url: &str, plan: &Plan) -> Result<Finish> {
    let messages = plan.messages();
    arena.load(messages, QueueKind::Classic)?;
    let options = ["--prefetch", PREFETCH];
    let finish = arena.let_act_on(Some(url), CONTESTANT, "consume", messages, &options)?;
    arena.bench::<()>("forget", messages, &["--store-url", url])?;
    Ok(finish)
}

/// The first has the fewest keys.
fn compare(figures: impl IntoIterator<Item = (u64, Vec<f64>)>) -> Vec<Row> {
    let figures = figures.into_iter();
    let rows = figures.scan(None, |few, (keys, rounds)| {
        let msgs_per_s = median(rounds.iter().copied())?;
        Some(Row {
            keys,
            msgs_per_s,
            slowdown: *few.get_or_insert(msgs_per_s) / msgs_per_s,
            rounds,
        })
    });
    rows.collect()
}

pub(super) fn table(rows: &[Row]) -> Table {
    let heading = ["keys", "msg/s", "slowest", "fastest", "times as long"];
    let mut table = Table::new(0, &heading);
    for row in rows {
        let rounds = || row.rounds.iter().copied();
        table.row(vec![
            count(row.keys),
            grouped(row.msgs_per_s),
            grouped(rounds().fold(f64::INFINITY, f64::min)),
            grouped(rounds().fold(0.0, f64::max)),
            format!("{:.2}", row.slowdown),
        ]);
    }
    table
}

/// A sentence about each table but the one with the fewest keys.
pub(super) fn verdicts(rows: &[Row]) -> Vec<String> {
    let verdict = |row: &Row| {
        let verdict = if row.slowdown <= SLOWDOWN {
            "met"
        } else {
            "MISSED"
        };
        let (keys, few) = (count(row.keys), count(rows[0].keys));
        format!(
            "{verdict}: {keys} keys: {:.2} times as long as with {few}, aim {SLOWDOWN}",
            row.slowdown
        )
    };
    rows.iter().skip(1).map(verdict).collect()
}

/// A line for programs.
pub(super) fn line(row: &Row) -> String {
    format!(
        "part=keys keys={} msgs_per_s={:.0} slowdown={:.2}",
        row.keys, row.msgs_per_s, row.slowdown
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no table has so many keys that it matters"
)]
fn count(keys: u64) -> String {
    grouped(keys as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_are_compared_with_few() {
        let rows = compare([
            (10, vec![900.0, 1_300.0, 1_500.0]),
            (1_000, vec![1_000.0]),
            (2_000, vec![990.0]),
        ]);
        assert_eq!(
            verdicts(&rows),
            [
                "met: 1,000 keys: 1.30 times as long as with 10, aim 1.3",
                "MISSED: 2,000 keys: 1.31 times as long as with 10, aim 1.3",
            ]
        );
        assert_eq!(
            line(&rows[1]),
            "part=keys keys=1000 msgs_per_s=1000 slowdown=1.30"
        );
    }
}
