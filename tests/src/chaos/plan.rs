//! One run, decided in every detail that is ours to decide.

use std::fmt;

use super::{Fault, Options, Schedule};

/// One run: two runs of the same plan have the same orders and the same faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the orders and the faults are drawn from.
    pub seed: u64,
    /// How long orders are published and faults injected.
    pub seconds: u64,
    /// Where the workers remember what they have done.
    pub store: StoreKind,
    /// How they charge.
    pub mode: Mode,
    /// Whether they publish by their outbox that they have charged.
    pub outbox: bool,
    /// The type of the queues.
    pub queues: Queues,
    /// How many workers there are.
    pub workers: usize,
    /// The faults that occur; all that are possible if none is named.
    pub only: Vec<Fault>,
}

/// A store that workers can share.
#[derive(Clone, Copy, Debug, clap::ValueEnum, PartialEq, Eq)]
pub enum StoreKind {
    /// A PostgreSQL server
    Postgres,
    /// A SQLite file
    Sqlite,
    /// A Redis server that writes everything down before it answers
    Redis,
}

/// How an order's charge is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It commits together with its record: never twice.
    Atomic,
    /// The same, and several share a commit.
    Grouped,
    /// The same, and several share a call of the handler and a commit.
    Batched,
    /// It is made under a lease: twice where the lease is lost in between.
    Leased,
    /// The same, and several share a call of the handler.
    LeasedBatched,
}

/// The type of the queues.
#[derive(Clone, Copy, Debug, clap::ValueEnum, PartialEq, Eq)]
pub enum Queues {
    /// Replicated ones, which keep what was settled
    Quorum,
    /// Those of old, which a killed broker may deliver from again
    Classic,
}

impl Mode {
    /// Whether a charge may be made twice where a lease is lost.
    pub(super) fn is_leased(self) -> bool {
        matches!(self, Self::Leased | Self::LeasedBatched)
    }

    /// Whether several orders share a call.
    pub(super) fn is_batched(self) -> bool {
        matches!(self, Self::Batched | Self::LeasedBatched)
    }
}

impl Plan {
    /// What the options leave open is decided here.
    pub fn new(options: &Options) -> Self {
        let leased = options.leased || options.store == StoreKind::Redis;
        let mode = match options.store {
            _ if leased && options.batched => Mode::LeasedBatched,
            _ if leased => Mode::Leased,
            _ if options.batched => Mode::Batched,
            StoreKind::Postgres if options.grouped => Mode::Grouped,
            _ => Mode::Atomic,
        };
        Self {
            // Short enough to be typed.
            seed: options.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000)),
            seconds: options.seconds,
            store: options.store,
            outbox: options.outbox && !leased,
            mode,
            queues: options.queues,
            workers: usize::try_from(options.workers).expect("a small number"),
            only: options.only.clone(),
        }
    }

    /// What goes wrong, and when.
    pub fn schedule(&self) -> Schedule {
        Schedule::of(self)
    }
}

/// The command that runs the plan again.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, seed, .. } = self;
        write!(f, "cargo xtask chaos --seconds {seconds} --seed {seed}")?;
        match self.store {
            StoreKind::Postgres => {}
            StoreKind::Sqlite => write!(f, " --store sqlite")?,
            StoreKind::Redis => write!(f, " --store redis")?,
        }
        if self.mode.is_leased() && self.store != StoreKind::Redis {
            write!(f, " --leased")?;
        }
        if self.mode == Mode::Grouped {
            write!(f, " --grouped")?;
        }
        if self.mode.is_batched() {
            write!(f, " --batched")?;
        }
        if self.outbox {
            write!(f, " --outbox")?;
        }
        if self.queues == Queues::Classic {
            write!(f, " --queues classic")?;
        }
        write!(f, " --workers {}", self.workers)?;
        if self.only.is_empty() {
            return Ok(());
        }
        let only: Vec<_> = self.only.iter().map(|fault| fault.name()).collect();
        write!(f, " --only {}", only.join(","))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::{Options, Plan};

    fn plan(command: &str) -> Plan {
        let words = command.split(' ').skip("cargo xtask".split(' ').count());
        let matches = Options::augment_args(Command::new("chaos")).get_matches_from(words);
        Plan::new(&Options::from_arg_matches(&matches).expect("the command is understood"))
    }

    #[test]
    fn a_plan_is_shown_as_the_command_that_runs_it_again() {
        for command in [
            "cargo xtask chaos --seconds 60 --seed 7 --workers 4",
            "cargo xtask chaos --seconds 60 --seed 7 --grouped --workers 4",
            "cargo xtask chaos --seconds 60 --seed 7 --batched --workers 4",
            "cargo xtask chaos --seconds 60 --seed 7 --outbox --workers 4",
            "cargo xtask chaos --seconds 60 --seed 7 --store sqlite --batched --outbox --workers 4",
            "cargo xtask chaos --seconds 60 --seed 7 --store redis --batched --workers 4",
            "cargo xtask chaos --seconds 5 --seed 7 --store sqlite --leased --workers 1",
            "cargo xtask chaos --seconds 5 --seed 7 --store sqlite --leased --batched --workers 1",
            "cargo xtask chaos --seconds 30 --seed 8 --store redis --queues classic --workers 2 --only kill,hang-store",
        ] {
            assert_eq!(plan(command).to_string(), command);
        }
    }

    #[test]
    fn without_a_seed_there_is_a_new_one_each_time() {
        let seeds = [(); 4].map(|()| plan("cargo xtask chaos").seed);
        assert!(seeds.iter().any(|seed| *seed != seeds[0]), "{seeds:?}");
    }
}
