//! How long messages took.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Of one run, in microseconds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
pub struct Delays {
    /// Half of the messages took at most so long.
    pub p50: f64,
    /// 99 of 100 messages took at most so long.
    pub p99: f64,
}

impl Delays {
    /// Those of these messages, of which there is one at least.
    pub fn of(messages: &[Duration]) -> Self {
        let mut sorted = messages.to_vec();
        sorted.sort_unstable();
        let part = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            sorted[rank.saturating_sub(1)].as_secs_f64() * 1e6
        };
        Self {
            p50: part(50),
            p99: part(99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_a_hundred_took_at_most_so_long() {
        let messages: Vec<_> = (1..=200).rev().map(Duration::from_micros).collect();
        let Delays { p50, p99 } = Delays::of(&messages);
        assert!((p50 - 100.0).abs() < 1e-6, "{p50}");
        assert!((p99 - 198.0).abs() < 1e-6, "{p99}");
    }

    #[test]
    fn one_message_is_all_of_them() {
        let Delays { p50, p99 } = Delays::of(&[Duration::from_micros(7)]);
        assert!((p50 - 7.0).abs() < 1e-6 && (p99 - 7.0).abs() < 1e-6);
    }
}
