//! What the benchmark program measures and tells, one JSON object per line.

use serde::{Deserialize, Serialize};

/// One thing measured once.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(tag = "measured", rename_all = "kebab-case")]
pub enum Measurement {
    /// Claims and completions by many callers at a time.
    Speed {
        /// How many callers there were.
        callers: usize,
        /// Whose code they called.
        side: Side,
        /// What they did, and how long it took.
        pace: Pace,
    },
    /// Claims in a table that holds this many records.
    Crowd {
        /// How many records were in the table when the measurements began.
        records: u64,
        /// How many callers there were.
        callers: usize,
        /// What they claimed.
        kind: Kind,
        /// How often, and how long it took.
        pace: Pace,
    },
    /// What completed keys occupy.
    Size {
        /// Which part: a table, its indexes, a file, memory.
        part: String,
        /// How many completed keys there are.
        keys: u64,
        /// How much they occupy together.
        bytes: u64,
    },
}

/// Whose code was measured.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// A store of idem.
    Idem,
    /// What people write by hand for the same database.
    Naive,
}

/// What is claimed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A key that nobody has claimed before.
    New,
    /// A completed key.
    Duplicate,
}

/// How much was done in what time.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
pub struct Pace {
    /// What was done.
    pub operations: u64,
    /// From the first one's beginning to the last one's end.
    pub seconds: f64,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Duplicate => "duplicate",
        }
    }
}

impl Pace {
    /// Operations per second.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 operations")]
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_read_as_it_was_told() {
        let measurement = Measurement::Speed {
            callers: 16,
            side: Side::Naive,
            pace: Pace {
                operations: 50,
                seconds: 0.25,
            },
        };
        let line = serde_json::to_string(&measurement).expect("it is plain data");
        assert_eq!(
            line,
            r#"{"measured":"speed","callers":16,"side":"naive","pace":{"operations":50,"seconds":0.25}}"#
        );
        let read: Measurement = serde_json::from_str(&line).expect("it was just written");
        assert_eq!(read, measurement);
    }

    #[test]
    fn pace_is_per_second() {
        let pace = Pace {
            operations: 50,
            seconds: 0.25,
        };
        assert!((pace.per_second() - 200.0).abs() < 1e-9);
    }
}
