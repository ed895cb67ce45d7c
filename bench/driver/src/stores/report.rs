//! The figures as tables and, last, one line per store and number of callers.

use std::fmt;

use serde::Serialize;

use super::{
    super::table::{Table, grouped},
    aims,
    figures::{Crowd, Figures, Size, Speed},
};

/// What the whole run found out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Of a hundred messages.
    duplicates: u32,
    speeds: Vec<Speed>,
    crowds: Vec<Crowd>,
    sizes: Vec<Size>,
}

impl Report {
    pub(crate) fn new(figures: &Figures, duplicates: u32) -> Self {
        Self {
            duplicates,
            speeds: figures.speeds(),
            crowds: figures.crowds(),
            sizes: figures.sizes(),
        }
    }

    fn sizes(&self) -> Table {
        let mut table = Table::new(2, &["store", "part", "MB per million keys"]);
        for size in &self.sizes {
            // A byte per key is a megabyte per million keys.
            table.row(vec![
                size.store.name().to_owned(),
                size.part.clone(),
                grouped(size.bytes_per_key),
            ]);
        }
        table
    }

    fn crowds(&self) -> Table {
        let heading = [
            "claims of",
            "callers",
            "records",
            "per s",
            "records",
            "per s",
            "times as long",
        ];
        let mut table = Table::new(1, &heading);
        for crowd in &self.crowds {
            table.row(vec![
                format!("{} keys", crowd.kind.name()),
                crowd.callers.to_string(),
                crowd.few.0.to_string(),
                grouped(crowd.few.1),
                crowd.many.0.to_string(),
                grouped(crowd.many.1),
                format!("{:.2}", crowd.slowdown()),
            ]);
        }
        table
    }

    fn speeds(&self) -> Table {
        let heading = [
            "store", "callers", "per s", "by hand", "ratio", "from", "to",
        ];
        let mut table = Table::new(1, &heading);
        for speed in &self.speeds {
            table.row(vec![
                speed.store.name().to_owned(),
                speed.callers.to_string(),
                grouped(speed.ops_per_s),
                grouped(speed.naive_ops_per_s),
                format!("{:.2}", speed.ratio()),
                format!("{:.2}", speed.ratios.0),
                format!("{:.2}", speed.ratios.1),
            ]);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nwhat completed keys occupy\n\n{}", self.sizes())?;
        if !self.crowds.is_empty() {
            writeln!(
                f,
                "claims in PostgreSQL, few records and many\n\n{}",
                self.crowds()
            )?;
        }
        writeln!(
            f,
            "claims, each with its completion, {} % duplicates\n\n{}",
            self.duplicates,
            self.speeds()
        )?;
        for verdict in aims::verdicts(&self.speeds, &self.crowds) {
            writeln!(f, "{verdict}")?;
        }
        writeln!(f)?;
        self.crowds.iter().try_for_each(|crowd| {
            writeln!(
                f,
                "bench: store=postgres claim={} callers={} few={} few_per_s={:.0} many={} many_per_s={:.0} slowdown={:.2}",
                crowd.kind.name(),
                crowd.callers,
                crowd.few.0,
                crowd.few.1,
                crowd.many.0,
                crowd.many.1,
                crowd.slowdown()
            )
        })?;
        self.speeds.iter().try_for_each(|speed| {
            writeln!(
                f,
                "bench: store={} callers={} ops_per_s={:.0} naive_ops_per_s={:.0} ratio={:.2}",
                speed.store.name(),
                speed.callers,
                speed.ops_per_s,
                speed.naive_ops_per_s,
                speed.ratio()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::{Measurement, Pace, Side, StoreKind};

    #[test]
    fn the_last_lines_are_for_programs() {
        let round = |callers, side, operations| Measurement::Speed {
            callers,
            side,
            pace: Pace {
                operations,
                seconds: 2.0,
            },
        };
        let mut figures = Figures::default();
        figures.add(
            StoreKind::RedisCluster,
            vec![
                round(1, Side::Idem, 3_001),
                round(1, Side::Naive, 2_000),
                round(256, Side::Naive, 4_000),
                round(256, Side::Idem, 20_000),
            ],
        );
        let report = Report::new(&figures, 0).to_string();
        let lines: Vec<_> = report.lines().collect();
        assert_eq!(
            &lines[lines.len() - 2..],
            [
                "bench: store=redis-cluster callers=1 ops_per_s=1500 naive_ops_per_s=1000 ratio=1.50",
                "bench: store=redis-cluster callers=256 ops_per_s=10000 naive_ops_per_s=2000 ratio=5.00",
            ]
        );
    }
}
