//! What a worker occupies with a thousand deliveries in its hands.

use serde::Serialize;

use super::{
    super::{
        arena::{Arena, Messages},
        consume::{Contestant, QueueKind},
        program::Program,
        stores::Measurement,
        table::Table,
    },
    plan::Plan,
    workers::Together,
};
use idem_servers::Result;

pub(super) const CONTESTANTS: [Contestant; 4] = [
    Contestant::IdemMemory,
    Contestant::IdemSqlite,
    Contestant::IdemRedis,
    Contestant::IdemPostgres,
];
const PREFETCH: &str = "1000";
/// In bytes.
const AIM: u64 = 40 << 20;

/// One worker, in bytes of resident memory.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    contestant: Contestant,
    /// The most that one ever occupied whose queue was empty.
    idle_bytes: u64,
    /// The most that one ever occupied whose queue was full.
    peak_bytes: u64,
    /// What records occupy of this, where they are kept in the worker.
    records_bytes: u64,
}

pub(super) fn measure(arena: &Arena, plan: &Plan) -> Result<Vec<Row>> {
    let nothing = Messages::with_copies(0);
    let mut rows = Vec::new();
    for contestant in CONTESTANTS {
        let mut peaks = [0; 2];
        for (peak, messages) in peaks.iter_mut().zip([nothing, plan.messages()]) {
            for round in 1..=plan.rounds() {
                let (name, count) = (contestant.name(), messages.count);
                eprintln!("memory, round {round}: {name}, {count} messages");
                *peak = peak_bytes(arena, contestant, messages)?.max(*peak);
            }
        }
        let [idle_bytes, peak_bytes] = peaks;
        let records_bytes = match contestant {
            Contestant::IdemMemory => records_bytes(plan.messages())?,
            _ => 0,
        };
        rows.push(Row {
            contestant,
            idle_bytes,
            peak_bytes,
            records_bytes,
        });
    }
    Ok(rows)
}

fn peak_bytes(arena: &Arena, contestant: Contestant, messages: Messages) -> Result<u64> {
    arena.load(messages, QueueKind::Classic)?;
    let options = ["--prefetch", PREFETCH, "--workers", "1"];
    let alone: Together = arena.let_act(contestant, "workers", messages, &options)?;
    Ok(alone.peak_bytes.into_iter().max().unwrap_or_default())
}

/// What the records of that many messages occupy in the memory of a process.
fn records_bytes(messages: Messages) -> Result<u64> {
    let orders = messages.count - messages.count * u32::from(messages.duplicates) / 100;
    let stores = Program::build("bench-stores")?;
    let keys = orders.to_string();
    let told = stores.run(&["size", "--store", "memory", "--keys", &keys])?;
    let bytes = told.iter().map(|measurement| match measurement {
        Measurement::Size { bytes, .. } => *bytes,
        _ => 0,
    });
    Ok(bytes.sum())
}

impl Row {
    /// What it occupies beside its records.
    fn own_bytes(&self) -> u64 {
        self.peak_bytes.saturating_sub(self.records_bytes)
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let heading = ["consumer", "idle MiB", "peak MiB", "records", "without"];
    let mut table = Table::new(1, &heading);
    for row in rows {
        table.row(vec![
            row.contestant.name(),
            mebibytes(row.idle_bytes),
            mebibytes(row.peak_bytes),
            mebibytes(row.records_bytes),
            mebibytes(row.own_bytes()),
        ]);
    }
    table
}

/// A sentence about each worker.
pub(super) fn verdicts(rows: &[Row]) -> Vec<String> {
    let verdict = |row: &Row| {
        let verdict = if row.own_bytes() < AIM {
            "met"
        } else {
            "MISSED"
        };
        let (name, own) = (row.contestant.name(), mebibytes(row.own_bytes()));
        let records = match row.records_bytes {
            0 => String::new(),
            records => format!(" beside {} of records", mebibytes(records)),
        };
        format!(
            "{verdict}: {name}: {own} MiB{records}, aim below {}",
            AIM >> 20
        )
    };
    rows.iter().map(verdict).collect()
}

/// A line for programs.
pub(super) fn line(row: &Row) -> String {
    format!(
        "part=memory contestant={} idle_mib={} peak_mib={} records_mib={}",
        row.contestant.name(),
        mebibytes(row.idle_bytes),
        mebibytes(row.peak_bytes),
        mebibytes(row.records_bytes)
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no worker occupies so much that it matters"
)]
fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn row(contestant: Contestant, peak_bytes: u64, records_bytes: u64) -> Row {
        Row {
            contestant,
            idle_bytes: 12 * MIB,
            peak_bytes,
            records_bytes,
        }
    }

    #[test]
    fn records_that_are_kept_in_the_worker_do_not_count() {
        let rows = [
            row(Contestant::IdemMemory, 59 * MIB, 20 * MIB),
            row(Contestant::IdemRedis, 40 * MIB, 0),
        ];
        assert_eq!(
            verdicts(&rows),
            [
                "met: idem-memory: 39.0 MiB beside 20.0 of records, aim below 40",
                "MISSED: idem-redis: 40.0 MiB, aim below 40",
            ]
        );
        assert_eq!(
            line(&rows[0]),
            "part=memory contestant=idem-memory idle_mib=12.0 peak_mib=59.0 records_mib=20.0"
        );
    }
}
