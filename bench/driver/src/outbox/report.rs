//! The figures of outboxes as a table and, last, one line for each.

use std::{fmt, thread};

use serde::Serialize;

use super::{Figure, median_of};
use crate::table::{Table, grouped};

/// What the whole run found out.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    messages: u32,
    rounds: u32,
    /// Of this machine.
    cores: usize,
    lines: Vec<Line>,
}

/// What was measured of one contestant.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    name: String,
    /// Of each round.
    figures: Vec<Figure>,
}

impl Line {
    pub(super) fn new(name: String, figures: Vec<Figure>) -> Self {
        Self { name, figures }
    }

    fn median(&self, of: impl Fn(&Figure) -> Option<f64>) -> Option<f64> {
        median_of(&self.figures, of)
    }

    /// Messages, or events, per second.
    fn per_second(&self) -> Option<f64> {
        self.median(|figure| match figure {
            Figure::Consumed { with, .. } => Some(*with),
            Figure::Relayed(events) => Some(*events),
            Figure::Took(_) => None,
        })
    }

    /// With an event beside without, in the same round.
    fn ratio(&self) -> Option<f64> {
        self.median(|figure| match figure {
            Figure::Consumed { without, with } => Some(with / without),
            _ => None,
        })
    }

    fn p50(&self) -> Option<f64> {
        self.median(|figure| match figure {
            Figure::Took(delays) => Some(delays.p50),
            _ => None,
        })
    }

    fn p99(&self) -> Option<f64> {
        self.median(|figure| match figure {
            Figure::Took(delays) => Some(delays.p99),
            _ => None,
        })
    }
}

impl Report {
    pub(super) fn new(messages: u32, rounds: u32, lines: Vec<Line>) -> Self {
        Self {
            messages,
            rounds,
            cores: thread::available_parallelism().map_or(1, usize::from),
            lines,
        }
    }

    fn table(&self) -> Table {
        let heading = ["outbox", "per s", "to without", "p50 µs", "p99 µs"];
        let mut table = Table::new(1, &heading);
        let cell = |figure: Option<f64>| figure.map_or_else(String::new, grouped);
        for line in &self.lines {
            let ratio = line.ratio();
            table.row(vec![
                line.name.clone(),
                cell(line.per_second()),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                cell(line.p50()),
                cell(line.p99()),
            ]);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, rounds) = (grouped(self.messages.into()), self.rounds);
        let cores = self.cores;
        writeln!(f, "\n{messages} messages, {rounds} rounds, {cores} cores\n")?;
        writeln!(f, "{}", self.table())?;
        self.lines.iter().try_for_each(|line| {
            write!(f, "outbox: contestant={}", line.name)?;
            let figures = [
                ("per_s", line.per_second(), 0),
                ("ratio", line.ratio(), 2),
                ("p50_us", line.p50(), 0),
                ("p99_us", line.p99(), 0),
            ];
            for (name, figure, digits) in figures {
                if let Some(figure) = figure {
                    write!(f, " {name}={figure:.digits$}")?;
                }
            }
            writeln!(f)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Delays;

    #[test]
    fn each_figure_is_the_median_of_its_rounds() {
        let consumed = |without, with| Figure::Consumed { without, with };
        let figures = vec![
            consumed(100.0, 90.0),
            consumed(200.0, 100.0),
            consumed(100.0, 95.0),
        ];
        let took = vec![Figure::Took(Delays {
            p50: 7.0,
            p99: 70.0,
        })];
        let lines = vec![
            Line::new("atomic".into(), figures),
            Line::new("atomic-event".into(), took),
        ];
        let report = Report::new(1_000, 3, lines).to_string();
        let expected = "\noutbox: contestant=atomic per_s=95 ratio=0.90\noutbox: contestant=atomic-event p50_us=7 p99_us=70\n";
        assert!(report.ends_with(expected), "{report}");
    }
}
