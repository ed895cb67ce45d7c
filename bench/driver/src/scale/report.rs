//! The figures as tables and, last, one line per row.

use std::{fmt, thread};

use serde::Serialize;

use super::{
    super::{
        arena::Messages,
        table::{Table, grouped},
    },
    keys, memory,
    plan::Plan,
    purge, workers,
};

/// What the whole run found out; what was not measured has no rows.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    messages: Messages,
    rounds: u32,
    /// Of this machine.
    cores: usize,
    pub(super) workers: Vec<workers::Row>,
    pub(super) keys: Vec<keys::Row>,
    pub(super) memory: Vec<memory::Row>,
    pub(super) purge: Vec<purge::Row>,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            messages: plan.messages(),
            rounds: plan.rounds(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            workers: Vec::new(),
            keys: Vec::new(),
            memory: Vec::new(),
            purge: Vec::new(),
        }
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let workers = self.workers.iter().map(workers::line);
        let keys = self.keys.iter().map(keys::line);
        let memory = self.memory.iter().map(memory::line);
        let purge = self.purge.iter().map(purge::line);
        workers.chain(keys).chain(memory).chain(purge)
    }
}

fn part(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    tables: &[Table],
    verdicts: &[String],
) -> fmt::Result {
    writeln!(f, "\n{title}\n")?;
    for table in tables {
        writeln!(f, "{table}")?;
    }
    verdicts.iter().try_for_each(|line| writeln!(f, "{line}"))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Messages { count, duplicates } = self.messages;
        let count = grouped(count.into());
        let (rounds, cores) = (self.rounds, self.cores);
        writeln!(
            f,
            "\n{count} messages, {duplicates} % of them copies, {rounds} rounds, {cores} cores"
        )?;
        if !self.workers.is_empty() {
            let table = workers::table(&self.workers);
            part(f, "worker processes on one queue", &[table], &[])?;
        }
        if !self.keys.is_empty() {
            let table = keys::table(&self.keys);
            let verdicts = keys::verdicts(&self.keys);
            part(f, "keys in the table before", &[table], &verdicts)?;
        }
        if !self.memory.is_empty() {
            let table = memory::table(&self.memory);
            let verdicts = memory::verdicts(&self.memory);
            part(f, "memory of a worker, prefetch 1,000", &[table], &verdicts)?;
        }
        if !self.purge.is_empty() {
            let tables = [purge::table(&self.purge)].into_iter();
            let tables: Vec<_> = tables.chain(self.purge.last().map(purge::course)).collect();
            let verdicts = purge::verdicts(&self.purge);
            let title = "keys that are remembered for two seconds, four times as many messages";
            part(f, title, &tables, &verdicts)?;
        }
        writeln!(f)?;
        self.lines()
            .try_for_each(|line| writeln!(f, "scale: {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Backlog, Forgetting, Together},
        *,
    };
    use crate::consume::Contestant;

    #[test]
    fn only_what_was_measured_has_a_table_and_the_last_lines_are_for_programs() {
        let together = Together {
            messages: 10,
            executions: vec![9],
            seconds: 1.0,
            peak_bytes: vec![1],
        };
        let forgetting = Forgetting {
            messages: 40,
            seconds: 4.0,
            backlog: vec![Backlog {
                seconds: 0.5,
                expired: 7,
            }],
        };
        let report = Report {
            messages: Messages::with_copies(10),
            rounds: 1,
            cores: 2,
            workers: workers::compare(Contestant::IdemRedis, &[(1, vec![together])]),
            keys: Vec::new(),
            memory: Vec::new(),
            purge: vec![purge::Row::new(purge::beside(1, false), vec![forgetting])],
        };
        let report = report.to_string();
        assert!(
            report.contains("\nworker processes on one queue\n"),
            "{report}"
        );
        assert!(!report.contains("memory of a worker"), "{report}");
        assert!(
            report.ends_with(
                "\n\nscale: part=workers contestant=idem-redis workers=1 msgs_per_s=10 ratio=1.00 executions=9\
                 \nscale: part=purge purgers=1 held=false msgs_per_s=10 most_expired=7 grows=unknown\n"
            ),
            "{report}"
        );
    }
}
