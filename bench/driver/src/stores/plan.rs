//! What is measured, and how thoroughly.

use std::fmt;

use super::{super::StoreKind, Options};

const STORES: [StoreKind; 5] = [
    StoreKind::Memory,
    StoreKind::Sqlite,
    StoreKind::Postgres,
    StoreKind::Redis,
    StoreKind::RedisCluster,
];
const CALLERS: [u32; 5] = [1, 16, 64, 256, 1024];
const MANY: u64 = 10_000_000;
const FEW: u64 = 10_000;

#[derive(Debug)]
pub(crate) struct Plan {
    stores: Vec<StoreKind>,
    callers: Vec<u32>,
    duplicates: u32,
    rounds: u32,
    round_ms: u32,
    keys: u64,
    rows: u64,
}

/// One run of the benchmark program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Speed {
        callers: Vec<u32>,
        duplicates: u32,
        rounds: u32,
        round_ms: u32,
    },
    Size {
        keys: u64,
    },
    Crowd {
        few: u64,
        many: u64,
        rounds: u32,
    },
}

impl Plan {
    pub(crate) fn new(options: &Options) -> Self {
        let quick = options.quick;
        Self {
            stores: chosen(&options.store, &STORES),
            callers: chosen(&options.callers, &CALLERS),
            duplicates: options.duplicates,
            rounds: if quick { 3 } else { 5 },
            round_ms: if quick { 150 } else { 1_000 },
            keys: if quick { 20_000 } else { 200_000 },
            rows: options.rows.unwrap_or(if quick { 0 } else { MANY }),
        }
    }

    pub(crate) fn stores(&self) -> &[StoreKind] {
        &self.stores
    }

    pub(crate) fn duplicates(&self) -> u32 {
        self.duplicates
    }

    pub(crate) fn parts_of(&self, store: StoreKind) -> Vec<Part> {
        let mut parts = vec![Part::Speed {
            callers: self.callers.clone(),
            duplicates: self.duplicates,
            rounds: self.rounds,
            round_ms: self.round_ms,
        }];
        // A key occupies in a cluster what it occupies in one of its nodes.
        if store != StoreKind::RedisCluster {
            parts.push(Part::Size { keys: self.keys });
        }
        if store == StoreKind::Postgres && self.rows > 0 {
            parts.push(Part::Crowd {
                few: FEW,
                many: self.rows,
                rounds: 2 * self.rounds + 1,
            });
        }
        parts
    }
}

fn chosen<T: Copy>(some: &[T], all: &[T]) -> Vec<T> {
    if some.is_empty() { all } else { some }.to_vec()
}

impl Part {
    /// For the benchmark program's command line.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let words = match self {
            Self::Speed {
                callers,
                duplicates,
                rounds,
                round_ms,
            } => {
                let callers: Vec<_> = callers.iter().map(ToString::to_string).collect();
                format!(
                    "speed --callers {} --duplicates {duplicates} --rounds {rounds} --round-ms {round_ms}",
                    callers.join(",")
                )
            }
            Self::Size { keys } => format!("size --keys {keys}"),
            Self::Crowd { few, many, rounds } => {
                format!("crowd --few {few} --many {many} --rounds {rounds}")
            }
        };
        words.split(' ').map(str::to_owned).collect()
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Speed { .. } => f.write_str("claims and completions, each side in turn"),
            Self::Size { keys } => write!(f, "what {keys} completed keys occupy"),
            Self::Crowd { few, many, .. } => write!(f, "claims beside {many} and {few} records"),
        }
    }
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

    fn plan(line: &str) -> Plan {
        Plan::new(&Line::parse_from(line.split(' ')).options)
    }

    #[test]
    fn everything_is_measured_unless_it_is_filtered() {
        assert_eq!(plan("bench").stores(), STORES);
        let plan = plan("bench --store redis,memory --callers 7");
        assert_eq!(plan.stores(), [StoreKind::Redis, StoreKind::Memory]);
        let [Part::Speed { callers, .. }, Part::Size { .. }] = &plan.parts_of(StoreKind::Redis)[..]
        else {
            panic!("{:?}", plan.parts_of(StoreKind::Redis));
        };
        assert_eq!(callers, &[7]);
    }

    #[test]
    fn the_large_table_is_left_out_of_a_quick_run_that_does_not_ask_for_it() {
        let crowds = |line| {
            let parts = plan(line).parts_of(StoreKind::Postgres);
            let is_crowd = |part: &&Part| matches!(part, Part::Crowd { .. });
            parts.iter().filter(is_crowd).count()
        };
        assert_eq!(crowds("bench"), 1);
        assert_eq!(crowds("bench --rows 0"), 0);
        assert_eq!(crowds("bench --quick"), 0);
        assert_eq!(crowds("bench --quick --rows 5"), 1);
    }

    #[test]
    fn the_program_is_told_in_words() {
        let part = Part::Crowd {
            few: 1,
            many: 2,
            rounds: 3,
        };
        let words = ["crowd", "--few", "1", "--many", "2", "--rounds", "3"];
        assert_eq!(part.arguments(), words);
    }
}
