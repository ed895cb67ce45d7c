//! One, two and four worker processes on one queue.

use serde::{Deserialize, Serialize};

use super::{
    super::{
        arena::{Arena, Messages},
        consume::{Contestant, QueueKind},
        median::median,
        table::{Table, grouped},
    },
    plan::Plan,
};
use idem_servers::Result;

const WORKERS: [u32; 3] = [1, 2, 4];
const PREFETCH: &str = "256";

/// What several workers have done together, checked by the program that let them.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Together {
    /// How many messages were in the queue.
    pub messages: u32,
    /// How many each process executed. In sum, each order was executed once.
    pub executions: Vec<u32>,
    /// From the first delivery until the last connection was closed; zero without a message.
    pub seconds: f64,
    /// The most memory that each process ever occupied.
    pub peak_bytes: Vec<u64>,
}

/// So many workers: the medians of the rounds.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    contestant: Contestant,
    workers: u32,
    msgs_per_s: f64,
    /// Of each round.
    rounds: Vec<f64>,
    /// How many times as fast as one worker.
    ratio: f64,
    /// All together, in each round.
    executions: u32,
}

pub(super) fn measure(arena: &Arena, plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &contestant in plan.sharing() {
        // A broker's first messages are slow.
        shared(arena, contestant, 1, plan.messages())?;
        let mut figures = WORKERS.map(|workers| (workers, Vec::new()));
        for round in 1..=plan.rounds() {
            for (workers, rounds) in &mut figures {
                let name = contestant.name();
                eprintln!("workers, round {round}: {workers} of {name}");
                rounds.push(shared(arena, contestant, *workers, plan.messages())?);
            }
        }
        rows.extend(compare(contestant, &figures));
    }
    Ok(rows)
}

fn shared(
    arena: &Arena,
    contestant: Contestant,
    workers: u32,
    messages: Messages,
) -> Result<Together> {
    arena.load(messages, QueueKind::Classic)?;
    let workers = workers.to_string();
    let options = ["--prefetch", PREFETCH, "--workers", &workers];
    arena.let_act(contestant, "workers", messages, &options)
}

/// The first has the fewest workers.
pub(super) fn compare(contestant: Contestant, figures: &[(u32, Vec<Together>)]) -> Vec<Row> {
    let rows = figures.iter().scan(None, |one, (workers, rounds)| {
        let per_second = |round: &Together| f64::from(round.messages) / round.seconds;
        let msgs_per_s = median(rounds.iter().map(per_second))?;
        Some(Row {
            contestant,
            workers: *workers,
            msgs_per_s,
            rounds: rounds.iter().map(per_second).collect(),
            ratio: msgs_per_s / *one.get_or_insert(msgs_per_s),
            executions: rounds.last()?.executions.iter().sum(),
        })
    });
    rows.collect()
}

pub(super) fn table(rows: &[Row]) -> Table {
    let heading = [
        "consumer",
        "workers",
        "msg/s",
        "slowest",
        "fastest",
        "ratio",
        "executions",
    ];
    let mut table = Table::new(1, &heading);
    for row in rows {
        let rounds = || row.rounds.iter().copied();
        table.row(vec![
            row.contestant.name(),
            row.workers.to_string(),
            grouped(row.msgs_per_s),
            grouped(rounds().fold(f64::INFINITY, f64::min)),
            grouped(rounds().fold(0.0, f64::max)),
            format!("{:.2}", row.ratio),
            grouped(row.executions.into()),
        ]);
    }
    table
}

/// A line for programs.
pub(super) fn line(row: &Row) -> String {
    format!(
        "part=workers contestant={} workers={} msgs_per_s={:.0} ratio={:.2} executions={}",
        row.contestant.name(),
        row.workers,
        row.msgs_per_s,
        row.ratio,
        row.executions
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_are_compared_with_one() {
        let together = |seconds, executions: &[u32]| Together {
            messages: 1_000,
            executions: executions.to_vec(),
            seconds,
            peak_bytes: Vec::new(),
        };
        let figures = [
            (1, vec![together(2.0, &[900]), together(2.0, &[900])]),
            (
                2,
                vec![together(1.0, &[400, 500]), together(1.25, &[1, 899])],
            ),
        ];
        let rows = compare(Contestant::IdemRedis, &figures);
        let lines: Vec<_> = rows.iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "part=workers contestant=idem-redis workers=1 msgs_per_s=500 ratio=1.00 executions=900",
                "part=workers contestant=idem-redis workers=2 msgs_per_s=900 ratio=1.80 executions=900",
            ]
        );
    }
}
