//! The standings as tables and, last, one line per contestant.

use std::{fmt, thread};

use serde::Serialize;

use super::{
    super::{
        arena::Messages,
        table::{Table, grouped},
    },
    aims,
    figures::{Figures, Standing},
    plan::Plan,
    setting::Delays,
};

/// What the whole run found out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    messages: Messages,
    #[serde(flatten)]
    delays: Delays,
    rounds: u32,
    /// Of this machine.
    cores: usize,
    /// One race per setting.
    races: Vec<Vec<Standing>>,
}

impl Report {
    pub(crate) fn new(figures: &Figures, plan: &Plan) -> Self {
        let settings = plan.settings().iter();
        let race = |&setting| figures.standings(setting, plan.contestants());
        Self {
            messages: plan.messages(),
            delays: plan.delays(),
            rounds: plan.rounds(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            races: settings.map(race).collect(),
        }
    }

    pub(crate) fn standings(&self) -> &[Vec<Standing>] {
        &self.races
    }
}

fn table(race: &[Standing]) -> Table {
    let heading = [
        "consumer",
        "msg/s",
        "slowest",
        "fastest",
        "ratio",
        "from",
        "to",
        "executions",
    ];
    let mut table = Table::new(1, &heading);
    for standing in race {
        table.row(vec![
            standing.contestant.name(),
            grouped(standing.msgs_per_s),
            grouped(standing.slowest()),
            grouped(standing.fastest()),
            format!("{:.2}", standing.ratio),
            format!("{:.2}", standing.ratios.0),
            format!("{:.2}", standing.ratios.1),
            grouped(standing.executions.into()),
        ]);
    }
    table
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Messages { count, duplicates } = self.messages;
        writeln!(
            f,
            "\n{} messages, {duplicates} % of them copies, {} rounds, {} cores{}",
            grouped(count.into()),
            self.rounds,
            self.cores,
            self.delays
        )?;
        for race in &self.races {
            let Some(first) = race.first() else { continue };
            writeln!(f, "\n{}\n\n{}", first.setting, table(race))?;
            for verdict in aims::verdicts(race) {
                writeln!(f, "{verdict}")?;
            }
        }
        writeln!(f)?;
        let several = self.races.len() > 1;
        self.races.iter().flatten().try_for_each(|standing| {
            write!(
                f,
                "bench: contestant={} msgs_per_s={:.0} ratio={:.2} executions={}",
                standing.contestant.name(),
                standing.msgs_per_s,
                standing.ratio,
                standing.executions
            )?;
            if several {
                let setting = standing.setting;
                write!(
                    f,
                    " queue={} prefetch={}",
                    setting.queue.name(),
                    setting.prefetch
                )?;
            }
            writeln!(f)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Contestant,
            figures::tests::{SETTING, figures},
        },
        *,
    };

    fn report(settings: usize) -> String {
        use Contestant::{IdemMemory, LapinAckEach};
        let figures = figures(&[(LapinAckEach, 100), (IdemMemory, 265)]);
        let race = figures.standings(SETTING, &[LapinAckEach, IdemMemory]);
        let report = Report {
            messages: Messages::with_copies(10),
            delays: Delays::default(),
            rounds: 1,
            cores: 2,
            races: vec![race; settings],
        };
        report.to_string()
    }

    #[test]
    fn the_last_lines_are_for_programs() {
        assert!(
            report(1).ends_with(
                "\nbench: contestant=lapin-ack-each msgs_per_s=100 ratio=1.00 executions=9\
                 \nbench: contestant=idem-memory msgs_per_s=265 ratio=2.65 executions=9\n"
            ),
            "{}",
            report(1)
        );
    }

    #[test]
    fn lines_of_several_settings_tell_them_apart() {
        let line = "contestant=idem-memory msgs_per_s=265 ratio=2.65 executions=9 queue=classic prefetch=256\n";
        assert!(report(2).ends_with(line), "{}", report(2));
    }
}
