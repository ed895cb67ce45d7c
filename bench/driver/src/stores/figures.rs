//! The medians of what was measured.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    super::{StoreKind, median::median},
    Kind, Measurement, Side,
};

/// Everything that was measured, store by store.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<(StoreKind, Vec<Measurement>)>);

/// Claim plus completion, ours beside theirs.
#[derive(Debug, Serialize, PartialEq)]
pub(crate) struct Speed {
    pub(crate) store: StoreKind,
    pub(crate) callers: usize,
    pub(crate) ops_per_s: f64,
    pub(crate) naive_ops_per_s: f64,
    /// The least and the greatest ratio of two rounds that were measured one after the other.
    pub(crate) ratios: (f64, f64),
}

/// Claims in a table with many records beside one with few.
#[derive(Debug, Serialize, PartialEq)]
pub(crate) struct Crowd {
    pub(crate) kind: Kind,
    pub(crate) callers: usize,
    pub(crate) few: (u64, f64),
    pub(crate) many: (u64, f64),
}

/// What a part of a store occupies.
#[derive(Debug, Serialize, PartialEq)]
pub(crate) struct Size {
    pub(crate) store: StoreKind,
    pub(crate) part: String,
    pub(crate) bytes_per_key: f64,
}

impl Speed {
    pub(crate) fn ratio(&self) -> f64 {
        self.ops_per_s / self.naive_ops_per_s
    }
}

impl Crowd {
    /// How many times as long a claim takes among many records.
    pub(crate) fn slowdown(&self) -> f64 {
        self.few.1 / self.many.1
    }
}

impl Figures {
    pub(crate) fn add(&mut self, store: StoreKind, measurements: Vec<Measurement>) {
        self.0.push((store, measurements));
    }

    pub(crate) fn speeds(&self) -> Vec<Speed> {
        let mut speeds = Vec::new();
        for (store, measurements) in &self.0 {
            let mut rounds: BTreeMap<usize, BTreeMap<Side, Vec<f64>>> = BTreeMap::new();
            for measurement in measurements {
                if let Measurement::Speed {
                    callers,
                    side,
                    pace,
                } = measurement
                {
                    let sides = rounds.entry(*callers).or_default();
                    sides.entry(*side).or_default().push(pace.per_second());
                }
            }
            let row = |(callers, sides)| speed(*store, callers, &sides);
            speeds.extend(rounds.into_iter().filter_map(row));
        }
        speeds
    }

    pub(crate) fn crowds(&self) -> Vec<Crowd> {
        let mut rounds: BTreeMap<(usize, Kind), BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
        for (_, measurement) in self.each() {
            if let Measurement::Crowd {
                records,
                callers,
                kind,
                pace,
            } = measurement
            {
                let tables = rounds.entry((*callers, *kind)).or_default();
                tables.entry(*records).or_default().push(pace.per_second());
            }
        }
        rounds.into_iter().filter_map(crowd).collect()
    }

    pub(crate) fn sizes(&self) -> Vec<Size> {
        let size = |(store, measurement): (_, &Measurement)| match measurement {
            Measurement::Size { part, keys, bytes } => Some(Size {
                store,
                part: part.clone(),
                bytes_per_key: per_key(*bytes, *keys),
            }),
            _ => None,
        };
        self.each().filter_map(size).collect()
    }

    fn each(&self) -> impl Iterator<Item = (StoreKind, &Measurement)> {
        self.0
            .iter()
            .flat_map(|(store, measurements)| measurements.iter().map(move |one| (*store, one)))
    }
}

fn speed(store: StoreKind, callers: usize, sides: &BTreeMap<Side, Vec<f64>>) -> Option<Speed> {
    let (ours, theirs) = (sides.get(&Side::Idem)?, sides.get(&Side::Naive)?);
    let ratios = || ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
    Some(Speed {
        store,
        callers,
        ops_per_s: median(ours.iter().copied())?,
        naive_ops_per_s: median(theirs.iter().copied())?,
        ratios: (
            ratios().fold(f64::INFINITY, f64::min),
            ratios().fold(0.0, f64::max),
        ),
    })
}

fn crowd(((callers, kind), tables): ((usize, Kind), BTreeMap<u64, Vec<f64>>)) -> Option<Crowd> {
    let of_table = |(records, paces): (u64, Vec<f64>)| Some((records, median(paces)?));
    let mut tables = tables.into_iter().filter_map(of_table);
    Some(Crowd {
        kind,
        callers,
        few: tables.next()?,
        many: tables.next_back()?,
    })
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 of either")]
fn per_key(bytes: u64, keys: u64) -> f64 {
    bytes as f64 / keys as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::Pace;

    fn pace(operations: u64) -> Pace {
        Pace {
            operations,
            seconds: 1.0,
        }
    }

    fn round(callers: usize, side: Side, operations: u64) -> Measurement {
        Measurement::Speed {
            callers,
            side,
            pace: pace(operations),
        }
    }

    #[test]
    fn each_number_of_callers_has_the_medians_of_both_sides() {
        let mut figures = Figures::default();
        let mut rounds = vec![round(1, Side::Idem, 7), round(1, Side::Naive, 7)];
        for (ours, theirs) in [(900, 300), (400, 100), (500, 250)] {
            rounds.push(round(16, Side::Idem, ours));
            rounds.push(round(16, Side::Naive, theirs));
        }
        figures.add(StoreKind::Redis, rounds);
        let speeds = figures.speeds();
        assert_eq!(speeds.len(), 2);
        assert_eq!(
            speeds[1],
            Speed {
                store: StoreKind::Redis,
                callers: 16,
                ops_per_s: 500.0,
                naive_ops_per_s: 250.0,
                ratios: (2.0, 4.0),
            }
        );
        assert!((speeds[1].ratio() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_crowd_is_compared_with_the_smaller_table() {
        let claims = |records, operations| Measurement::Crowd {
            records,
            callers: 1,
            kind: Kind::New,
            pace: pace(operations),
        };
        let mut figures = Figures::default();
        figures.add(
            StoreKind::Postgres,
            vec![claims(1_000, 80), claims(10, 100), claims(10, 120)],
        );
        let crowds = figures.crowds();
        assert_eq!(crowds[0].few, (10, 110.0));
        assert_eq!(crowds[0].many, (1_000, 80.0));
        assert!((crowds[0].slowdown() - 1.375).abs() < 1e-9);
    }

    #[test]
    fn a_size_is_told_by_the_key() {
        let mut figures = Figures::default();
        let size = Measurement::Size {
            part: "file".to_owned(),
            keys: 4,
            bytes: 10,
        };
        figures.add(StoreKind::Sqlite, vec![size]);
        assert!((figures.sizes()[0].bytes_per_key - 2.5).abs() < 1e-9);
    }
}
