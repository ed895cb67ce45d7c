//! Measures what an outbox costs a consumer, how fast a relay is, and how long an event takes, beside an outbox by
//! hand.
//!
//! The program `bench-consume` does all that; this here starts the servers, lets one contestant after the other do it,
//! and compares.

use std::path::PathBuf;

use serde::{Serialize, de::DeserializeOwned};

use super::{
    StoreKind,
    arena::{Arena, Messages},
    consume::{Contestant, Finish, QueueKind},
    kept,
    latency::Delays,
    median::median,
};
use idem_servers::Result;

mod report;

use report::{Line, Report};

/// How long after its order an event leaves, where it is to be late.
const AFTER_MS: &str = "1000";

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
    /// How many rows wait in the table until tomorrow, for what is measured beside them
    #[arg(long, default_value_t = 1_000_000)]
    later: u32,
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
        later: options.later.to_string(),
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
    later: String,
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
        // The same with an old transaction, which is to change nothing.
        let held = &["--removed", self.removed.as_str()];
        for (without, with) in CONSUMERS
            .into_iter()
            .filter(|(_, with)| is_ours_on_postgres(*with))
        {
            figures.push((
                format!("{}-held", with.name()),
                Figure::Consumed {
                    without: self.consume(without)?,
                    with: self.consume_beside(with, "beside", held)?,
                },
            ));
        }
        for relay in RELAYS {
            figures.push((format!("{}-relay", relay.name()), self.relay(relay, &[])?));
        }
        let postgres = Contestant::IdemPostgresAtomicOutbox;
        for (what, beside) in [("held", held), ("later", &["--later", &self.later])] {
            let figure = self.relay(postgres, beside)?;
            figures.push((format!("{}-relay-{what}", postgres.name()), figure));
        }
        for (contestant, pace) in paces {
            let name = contestant.name();
            let few = self.messages / 4;
            let event = self.time(contestant, pace, few, &[])?;
            figures.push((format!("{name}-event"), event));
            if is_ours_on_postgres(contestant) {
                let held = self.time(contestant, pace, few, held)?;
                figures.push((format!("{name}-event-held"), held));
            }
            if contestant != BY_HAND {
                // So many that most are due while others are handled.
                let after = &["--after-ms", AFTER_MS];
                let after = self.time(contestant, pace, self.messages, after)?;
                figures.push((format!("{name}-event-after"), after));
            }
        }
        Ok(figures)
    }

    fn consume(&self, contestant: Contestant) -> Result<f64> {
        self.consume_beside(contestant, "consume", &[])
    }

    /// Consumes a queue beside what these options put into the table.
    fn consume_beside(&self, contestant: Contestant, what: &str, beside: &[&str]) -> Result<f64> {
        let messages = Messages::with_copies(self.messages);
        self.arena.load(messages, QueueKind::Classic)?;
        let finish: Finish = self.act(contestant, what, messages, beside)?;
        Ok(finish.per_second())
    }

    fn relay(&self, contestant: Contestant, beside: &[&str]) -> Result<Figure> {
        let messages = Messages::with_copies(self.messages);
        let finish: Finish = self.act(contestant, "relay", messages, beside)?;
        Ok(Figure::Relayed(finish.per_second()))
    }

    /// At half of its pace.
    fn time(
        &self,
        contestant: Contestant,
        pace: f64,
        messages: u32,
        beside: &[&str],
    ) -> Result<Figure> {
        let messages = Messages::with_copies(messages);
        let rate = format!("{:.0}", (pace / 2.0).max(1.0));
        let options = [&["--rate", &rate], beside].concat();
        let delays = self.act(contestant, "events", messages, &options)?;
        Ok(Figure::Took(delays))
    }

    fn act<T: DeserializeOwned>(
        &self,
        contestant: Contestant,
        what: &str,
        messages: Messages,
        options: &[&str],
    ) -> Result<T> {
        let options = [&["--prefetch", "256"], options].concat();
        self.arena.let_act(contestant, what, messages, &options)
    }
}

/// Whether it is ours, and on PostgreSQL, which cannot clean up behind an old transaction.
fn is_ours_on_postgres(contestant: Contestant) -> bool {
    contestant != BY_HAND && contestant.server() == Some(StoreKind::Postgres)
}

/// The median of what a figure has, over the rounds that have it.
fn median_of(figures: &[Figure], of: impl Fn(&Figure) -> Option<f64>) -> Option<f64> {
    median(figures.iter().filter_map(of))
}
