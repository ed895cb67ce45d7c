//! What is measured, and how thoroughly.

use clap::ValueEnum;

use super::{
    super::{arena::Messages, consume::Contestant},
    Options,
};
use idem_servers::{Error, Result};

/// How many keys are in the table before.
const KEYS: [u64; 3] = [10_000, 1_000_000, 10_000_000];
const SHARING: [Contestant; 2] = [Contestant::IdemPostgres, Contestant::IdemRedis];

/// Something of which there is more and more.
#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum Part {
    /// One, two and four worker processes on one queue
    Workers,
    /// Few and many completed keys in the table
    Keys,
    /// What a worker occupies with a thousand deliveries in its hands
    Memory,
    /// Keys that end as fast as they come
    Purge,
}

#[derive(Debug)]
pub(super) struct Plan {
    parts: Vec<Part>,
    sharing: Vec<Contestant>,
    keys: Vec<u64>,
    messages: u32,
    rounds: u32,
    held: bool,
}

impl Plan {
    pub(super) fn new(options: &Options) -> Result<Self> {
        let quick = options.quick;
        let mut contestants = options.contestant.iter();
        if let Some(alone) = contestants.find(|contestant| !can_share(**contestant)) {
            return Err(Error::Missing(format!(
                "{} does not share its keys with other workers: name one of idem with a server",
                alone.name()
            )));
        }
        Ok(Self {
            parts: or(&options.part, Part::value_variants()),
            sharing: or(&options.contestant, &SHARING),
            keys: KEYS[..if quick { 2 } else { 3 }].to_vec(),
            messages: (options.messages).unwrap_or(if quick { 10_000 } else { 50_000 }),
            rounds: options.rounds.unwrap_or(if quick { 1 } else { 5 }),
            held: options.held,
        })
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Those that share a queue.
    pub(super) fn sharing(&self) -> &[Contestant] {
        &self.sharing
    }

    /// How many keys are in the table, few first.
    pub(super) fn keys(&self) -> &[u64] {
        &self.keys
    }

    pub(super) fn messages(&self) -> Messages {
        Messages::with_copies(self.messages)
    }

    /// A copy that comes after its key has ended is executed: there is none. It takes a while until
    /// purging has come to its pace: there are more.
    pub(super) fn messages_to_forget(&self) -> Messages {
        Messages {
            count: self.messages.saturating_mul(4),
            duplicates: 0,
        }
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Whether purging is measured only while a transaction is open all the time.
    pub(super) fn only_held(&self) -> bool {
        self.held
    }

    /// Everyone who takes part in anything.
    pub(super) fn contestants(&self) -> Vec<Contestant> {
        let parts = self.parts.iter();
        let of_part = |part: &Part| match part {
            Part::Workers => self.sharing.clone(),
            Part::Keys => vec![super::keys::CONTESTANT],
            Part::Memory => super::memory::CONTESTANTS.to_vec(),
            Part::Purge => vec![super::purge::CONTESTANT],
        };
        parts.flat_map(of_part).collect()
    }
}

fn can_share(contestant: Contestant) -> bool {
    contestant.name().starts_with("idem-") && contestant.server().is_some()
}

fn or<T: Copy>(some: &[T], all: &[T]) -> Vec<T> {
    if some.is_empty() { all } else { some }.to_vec()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn plan(line: &str) -> Result<Plan> {
        Plan::new(&Line::parse_from(line.split(' ')).options)
    }

    #[test]
    fn a_quick_run_leaves_ten_million_keys_out() {
        assert_eq!(plan("bench").unwrap().keys().last(), Some(&10_000_000));
        let quick = plan("bench --quick").unwrap();
        assert_eq!(quick.keys(), [10_000, 1_000_000]);
        assert_eq!(quick.parts(), Part::value_variants());
    }

    #[test]
    fn only_those_who_share_their_keys_share_a_queue() {
        for alone in ["idem-memory", "idem-sqlite", "naive-redis", "lapin-no-ack"] {
            let error = plan(&format!("bench --contestant {alone}")).unwrap_err();
            assert!(error.to_string().starts_with(alone), "{error}");
        }
        let plan = plan("bench --part workers --contestant idem-postgres-atomic").unwrap();
        assert_eq!(plan.contestants(), [Contestant::IdemPostgresAtomic]);
    }

    #[test]
    fn no_key_that_is_forgotten_has_a_copy() {
        let plan = plan("bench --messages 1000").unwrap();
        let expected = Messages {
            count: 4_000,
            duplicates: 0,
        };
        assert_eq!(plan.messages_to_forget(), expected);
        assert_eq!(plan.messages(), Messages::with_copies(1_000));
    }
}
