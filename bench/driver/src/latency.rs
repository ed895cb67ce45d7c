//! Measures how long one message takes with a consumer that handles each once, beside a plain one.
//!
//! The program `bench-consume` publishes and consumes; this here starts the servers, lets one
//! contestant after the other run, alone and under load, and compares.

mod delays;
mod report;

use std::path::PathBuf;

pub use self::delays::Delays;
use self::report::{Line, Report};
use super::{
    arena::{Arena, Messages},
    consume::{Contestant, Finish, QueueKind},
    kept,
};
use idem_servers::Result;

/// What all others are compared with: a task per message, as idem has.
const BASELINE: Contestant = Contestant::LapinTaskEach;
const OURS: [Contestant; 6] = [
    Contestant::IdemMemory,
    Contestant::IdemSqlite,
    Contestant::IdemRedis,
    Contestant::IdemPostgres,
    Contestant::IdemPostgresAtomic,
    Contestant::IdemPostgresGrouped,
];

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only these, beside the plain one
    #[arg(long, value_enum, value_delimiter = ',')]
    contestant: Vec<Contestant>,
    /// How many messages are timed in each round
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..))]
    messages: u32,
    /// How often each contestant has its turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Writes every figure to a file, too
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One contestant in one round.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// One message after the other.
    alone: Delays,
    /// At half of what it can do.
    loaded: Delays,
    /// What the store takes for a claim and a completion.
    store: Option<Delays>,
}

/// Measures, prints a table and, last, one line per contestant.
///
/// # Errors
///
/// Something is missing, or a contestant left a message or ran one more often than it should.
pub fn run(options: &Options) -> Result<()> {
    let contestants: Vec<_> = std::iter::once(BASELINE)
        .chain(OURS.into_iter().filter(|ours| options.asks_for(*ours)))
        .collect();
    let arena = Arena::open(&contestants)?;
    let mut rounds = vec![Vec::new(); contestants.len()];
    let mut rates = Vec::new();
    for &contestant in &contestants {
        rates.push(half_of_its_pace(&arena, contestant)?);
    }
    for round in 1..=options.rounds {
        for (place, &contestant) in contestants.iter().enumerate() {
            eprintln!("round {round}: {}", contestant.name());
            rounds[place].push(measure(&arena, contestant, options.messages, rates[place])?);
        }
    }
    let lines = contestants.iter().zip(rates).zip(&rounds);
    let lines = lines.map(|((&contestant, rate), rounds)| Line::new(contestant, rate, rounds));
    let report = Report::new(lines.collect(), options.messages, options.rounds);
    if let Some(file) = &options.json {
        kept::json(file, &report)?;
    }
    print!("{report}");
    Ok(())
}

impl Options {
    fn asks_for(&self, contestant: Contestant) -> bool {
        self.contestant.is_empty() || self.contestant.contains(&contestant)
    }
}

/// Messages per second.
fn half_of_its_pace(arena: &Arena, contestant: Contestant) -> Result<u32> {
    let messages = Messages::with_copies(4_000);
    arena.load(messages, QueueKind::Classic)?;
    let options = ["--prefetch", "256"];
    let finish: Finish = arena.let_act(contestant, "consume", messages, &options)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a positive number of thousands"
    )]
    Ok((finish.per_second() / 2.0).max(1.0) as u32)
}

fn measure(arena: &Arena, contestant: Contestant, messages: u32, rate: u32) -> Result<Round> {
    let prefetch = ["--prefetch", "256"];
    let rate = rate.to_string();
    let with_rate = [&prefetch[..], &["--rate", &rate]].concat();
    let (few, many) = (
        Messages::with_copies(messages),
        Messages::with_copies(5 * messages),
    );
    let store =
        (contestant != BASELINE).then(|| arena.let_act(contestant, "store", few, &prefetch));
    Ok(Round {
        alone: arena.let_act(contestant, "latency", few, &prefetch)?,
        loaded: arena.let_act(contestant, "latency", many, &with_rate)?,
        store: store.transpose()?,
    })
}
