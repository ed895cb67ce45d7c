//! Measures what an outbox costs a consumer, how fast a relay is, and how long an event takes, beside an outbox by
//! hand.
//!
//! The program `bench-consume` does all that; this here starts the servers, lets one contestant after the other do it,
//! and compares.

use std::path::PathBuf;

use serde::Serialize;

use super::{
    arena::{Arena, Messages},
    consume::{Contestant, Finish, QueueKind},
    kept,
    latency::Delays,
    median::median,
};
use idem_servers::Result;

mod report;

use report::{Line, Report};

const BY_HAND: Contestant = Contestant::HandwrittenPostgresOutbox;

/// Each that publishes, with the one that does the same without an event.
const CONSUMERS: [(Contestant, Contestant); 5] = [
    (Contestant::HandwrittenPostgresAtomic, BY_HAND),
    (
        Contestant::IdemPostgresAtomic,
        Contestant::IdemPostgresAtomicOutbox,
    ),
    (
        Contestant::IdemPostgresBatch,
        Contestant::IdemPostgresBatchOutbox,
    ),
    (
        Contestant::IdemSqliteAtomic,
        Contestant::IdemSqliteAtomicOutbox,
    ),
    (
        Contestant::IdemSqliteBatch,
        Contestant::IdemSqliteBatchOutbox,
    ),
];

/// What publishes what is in a table.
const RELAYS: [Contestant; 3] = [
    BY_HAND,
    Contestant::IdemPostgresAtomicOutbox,
    Contestant::IdemSqliteAtomicOutbox,
];

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How many messages each contestant gets
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1_000..))]
    messages: u32,
    /// How often each contestant has its turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many rows an old transaction keeps PostgreSQL from cleaning up: ten minutes of 1,000 events a second
    #[arg(long, default_value_t = 600_000)]
    removed: u32,
    /// Writes every figure to a file, too
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What one contestant did in one round.
#[derive(Clone, Copy, Debug, Serialize)]
enum Figure {
    /// Messages per second, without and with an event for each.
    Consumed { without: f64, with: f64 },
    /// Events per second.
    Relayed(f64),
    /// In microseconds.
    Took(Delays),
}

/// Measures, prints a table and, last, a line per figure.
///
/// # Errors
/// Something is missing, or a contestant lost or doubled a message or an event.
pub fn run(options: &Options) -> Result<()> {
    let contestants: Vec<_> = CONSUMERS.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let arena = Arena::open(&contestants)?;
    let bench = Bench {
        arena: &arena,
        messages: options.messages,
        removed: options.removed.to_string(),
    };
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        eprintln!("round {round}");
        rounds.push(bench.round()?);
    }
    let report = Report::new(options.messages, options.rounds, of_each(&rounds));
    if let Some(file) = &options.json {
        kept::json(file, &report)?;
    }
    print!("{report}");
    Ok(())
}

/// The figures of all rounds for each thing that was measured.
fn of_each(rounds: &[Vec<(String, Figure)>]) -> Vec<Line> {
    let Some(first) = rounds.first() else {
        return Vec::new();
    };
    let places = 0..first.len();
    places
        .map(|place| {
            let figures = rounds.iter().map(|round| round[place].1).collect();
            Line::new(first[place].0.clone(), figures)
        })
        .collect()
}

struct Bench<'a> {
    arena: &'a Arena,
    messages: u32,
    removed: String,
}

impl Bench<'_> {
    fn round(&self) -> Result<Vec<(String, Figure)>> {
        let mut figures = Vec::new();
        let mut paces = Vec::new();
        for (without, with) in CONSUMERS {
            let name = with.name();
            let figure = Figure::Consumed {
                without: self.consume(without)?,
                with: self.consume(with)?,
            };
            if let Figure::Consumed { with: pace, .. } = figure {
                paces.push((with, pace));
            }
            figures.push((name, figure));
        }
        for relay in RELAYS {
            figures.push((format!("{}-relay", relay.name()), self.relay(relay, "0")?));
        }
        let postgres = Contestant::IdemPostgresAtomicOutbox;
        figures.push((
            format!("{}-relay-held", postgres.name()),
            self.relay(postgres, &self.removed)?,
        ));
        for (contestant, pace) in paces {
            let name = contestant.name();
            figures.push((format!("{name}-event"), self.time(contestant, pace, "0")?));
            if contestant == postgres {
                let held = self.time(contestant, pace, &self.removed)?;
                figures.push((format!("{name}-event-held"), held));
            }
        }
        Ok(figures)
    }

    fn consume(&self, contestant: Contestant) -> Result<f64> {
        let messages = Messages::with_copies(self.messages);
        self.arena.load(messages, QueueKind::Classic)?;
        let options = ["--prefetch", "256"];
        let finish: Finish = self
            .arena
            .let_act(contestant, "consume", messages, &options)?;
        Ok(finish.per_second())
    }

    fn relay(&self, contestant: Contestant, removed: &str) -> Result<Figure> {
        let messages = Messages::with_copies(self.messages);
        let options = ["--prefetch", "256", "--removed", removed];
        let finish: Finish = self
            .arena
            .let_act(contestant, "relay", messages, &options)?;
        Ok(Figure::Relayed(finish.per_second()))
    }

    /// At half of its pace.
    fn time(&self, contestant: Contestant, pace: f64, removed: &str) -> Result<Figure> {
        let messages = Messages::with_copies(self.messages / 4);
        let rate = format!("{:.0}", (pace / 2.0).max(1.0));
        let options = ["--prefetch", "256", "--removed", removed, "--rate", &rate];
        let delays = self
            .arena
            .let_act(contestant, "events", messages, &options)?;
        Ok(Figure::Took(delays))
    }
}

/// The median of what a figure has, over the rounds that have it.
fn median_of(figures: &[Figure], of: impl Fn(&Figure) -> Option<f64>) -> Option<f64> {
    median(figures.iter().filter_map(of))
}
