//! The delays as a table and, last, one line per contestant.

use std::{fmt, thread};

use serde::Serialize;

use super::{Delays, Round};
use crate::{
    consume::Contestant,
    median::median,
    table::{Table, grouped},
};

/// What a message may take longer than with a plain consumer and the store, in microseconds.
const AIM: f64 = 200.0;

/// What the whole run found out. The plain consumer is the first.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    messages: u32,
    rounds: u32,
    /// Of this machine.
    cores: usize,
    lines: Vec<Line>,
}

/// One contestant: the medians of its rounds, in microseconds.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    contestant: Contestant,
    /// Messages per second under load.
    rate: u32,
    alone: Delays,
    loaded: Delays,
    store: Option<Delays>,
}

impl Line {
    pub(super) fn new(contestant: Contestant, rate: u32, rounds: &[Round]) -> Self {
        let of = |what: fn(&Round) -> Option<Delays>| {
            let middle = |part: fn(Delays) -> f64| median(rounds.iter().filter_map(what).map(part));
            Some(Delays {
                p50: middle(|delays| delays.p50)?,
                p99: middle(|delays| delays.p99)?,
            })
        };
        let measured = "each round has these";
        Self {
            contestant,
            rate,
            alone: of(|round| Some(round.alone)).expect(measured),
            loaded: of(|round| Some(round.loaded)).expect(measured),
            store: of(|round| round.store),
        }
    }
}

impl Report {
    pub(super) fn new(lines: Vec<Line>, messages: u32, rounds: u32) -> Self {
        Self {
            messages,
            rounds,
            cores: thread::available_parallelism().map_or(1, usize::from),
            lines,
        }
    }

    fn table(&self) -> Table {
        let heading = [
            "consumer",
            "alone: p50 µs",
            "p99",
            "added p50",
            "added p99",
            "store p50",
            "at msg/s",
            "loaded: p50 µs",
            "p99",
        ];
        let mut table = Table::new(1, &heading);
        for line in &self.lines {
            let plain = &self.lines[0].alone;
            table.row(vec![
                line.contestant.name(),
                grouped(line.alone.p50),
                grouped(line.alone.p99),
                format!("{:+.0}", line.alone.p50 - plain.p50),
                format!("{:+.0}", line.alone.p99 - plain.p99),
                line.store
                    .map_or_else(String::new, |store| grouped(store.p50)),
                grouped(line.rate.into()),
                grouped(line.loaded.p50),
                grouped(line.loaded.p99),
            ]);
        }
        table
    }

    /// A sentence for each of ours: whether it adds little beside the store.
    fn verdicts(&self) -> impl Iterator<Item = String> {
        let plain = self.lines[0].alone.p50;
        self.lines.iter().filter_map(move |line| {
            let more = line.alone.p50 - plain - line.store?.p50;
            let verdict = if more <= AIM { "met" } else { "MISSED" };
            let name = line.contestant.name();
            Some(format!(
                "{verdict}: {name}: {more:.0} µs beside the store's own, aim {AIM}"
            ))
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, rounds) = (grouped(self.messages.into()), self.rounds);
        let cores = self.cores;
        writeln!(f, "\n{messages} messages, {rounds} rounds, {cores} cores\n")?;
        writeln!(f, "{}", self.table())?;
        for verdict in self.verdicts() {
            writeln!(f, "{verdict}")?;
        }
        writeln!(f)?;
        self.lines.iter().try_for_each(|line| {
            writeln!(
                f,
                "latency: contestant={} p50_us={:.0} p99_us={:.0} loaded_p50_us={:.0} loaded_p99_us={:.0}",
                line.contestant.name(),
                line.alone.p50,
                line.alone.p99,
                line.loaded.p50,
                line.loaded.p99
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(p50: f64) -> Delays {
        Delays {
            p50,
            p99: 2.0 * p50,
        }
    }

    fn round(alone: f64, store: Option<f64>) -> Round {
        Round {
            alone: delays(alone),
            loaded: delays(5.0),
            store: store.map(delays),
        }
    }

    #[test]
    fn what_the_store_takes_is_not_counted_against_the_consumer() {
        let plain = [round(100.0, None), round(120.0, None), round(900.0, None)];
        let met = [round(620.0, Some(300.0)); 3];
        let missed = [round(621.0, Some(300.0)); 3];
        let lines = vec![
            Line::new(Contestant::LapinTaskEach, 1000, &plain),
            Line::new(Contestant::IdemRedis, 1000, &met),
            Line::new(Contestant::IdemPostgres, 1000, &missed),
        ];
        let report = Report::new(lines, 10, 3);
        let verdicts: Vec<_> = report.verdicts().collect();
        assert_eq!(
            verdicts,
            [
                "met: idem-redis: 200 µs beside the store's own, aim 200",
                "MISSED: idem-postgres: 201 µs beside the store's own, aim 200"
            ]
        );
        let line = "\nlatency: contestant=lapin-task-each p50_us=120 p99_us=240 loaded_p50_us=5 loaded_p99_us=10\n";
        assert!(report.to_string().contains(line), "{report}");
    }
}
