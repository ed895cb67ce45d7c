//! Where a message waits for its next attempt, outside of its queue and of the worker.

use std::time::Duration;

/// The delays after which a message comes back to its queue.
///
/// In RabbitMQ each rung is a queue, shared by all workers of a vhost that have a rung of that delay: `idem.retry.5m`,
/// say. In Kafka all wait in one topic. A message that failed goes to the first rung that is not shorter than the delay
/// it needs, or to the longest; what is left of a longer delay it waits for on a further one. Delays below the first
/// rung are waited out in the worker.
///
/// | default rungs | 1 s | 5 s | 15 s | 1 min | 5 min | 15 min | 1 h |
/// |---|---|---|---|---|---|---|---|
///
/// ```
/// use std::time::Duration;
/// use idem_core::settlement::Ladder;
///
/// let ladder = Ladder::new([Duration::from_secs(10), Duration::from_mins(2), Duration::from_hours(1)])?;
/// assert_eq!(ladder.rungs().len(), 3);
/// # Ok::<_, idem_core::settlement::LadderError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    /// The delays: at least one, in rising order.
    rungs: Vec<Duration>,
}

/// Why delays cannot be the rungs of a ladder.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LadderError {
    /// There is none.
    #[error("a retry ladder needs a rung: give it one delay or more")]
    NoRung,
    /// There are too many. Each is a queue on the broker.
    #[error("a retry ladder has {most} rungs at most", most = Ladder::MOST_RUNGS)]
    TooManyRungs,
    /// One is too short or too long.
    #[error(
        "a rung of {rung:?} is not possible: use {shortest:?} to {longest:?}",
        shortest = Ladder::SHORTEST_RUNG,
        longest = Ladder::LONGEST_RUNG
    )]
    OutOfRange {
        /// Its delay.
        rung: Duration,
    },
    /// One is not a whole number of milliseconds, as the broker measures it.
    #[error("a rung of {rung:?} is not possible: use whole milliseconds")]
    Fraction {
        /// Its delay.
        rung: Duration,
    },
    /// One is not longer than the one before it.
    #[error("the rungs of a retry ladder must rise: {rung:?} comes after {before:?}")]
    NotRising {
        /// Its delay.
        rung: Duration,
        /// The delay of the one before.
        before: Duration,
    },
}

crate::debug_as_chain!(LadderError);

impl Ladder {
    /// The shortest delay of a rung. Shorter ones are waited out in the worker.
    pub const SHORTEST_RUNG: Duration = Duration::from_millis(100);

    /// The longest delay of a rung.
    pub const LONGEST_RUNG: Duration = Duration::from_hours(24);

    /// How many rungs a ladder may have.
    pub const MOST_RUNGS: usize = 16;

    /// A ladder with these rungs, from the shortest to the longest.
    ///
    /// # Errors
    /// If there is no rung or there are too many, or if they do not rise, are out of range, or are
    /// not whole milliseconds.
    pub fn new(rungs: impl IntoIterator<Item = Duration>) -> Result<Self, LadderError> {
        let rungs: Vec<_> = rungs.into_iter().take(Self::MOST_RUNGS + 1).collect();
        match rungs.len() {
            0 => return Err(LadderError::NoRung),
            1..=Self::MOST_RUNGS => {}
            _ => return Err(LadderError::TooManyRungs),
        }
        for rung in &rungs {
            check(*rung)?;
        }
        match rungs.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(LadderError::NotRising {
                rung: pair[1],
                before: pair[0],
            }),
            None => Ok(Self { rungs }),
        }
    }

    /// The delays, from the shortest to the longest.
    pub fn rungs(&self) -> &[Duration] {
        &self.rungs
    }

    /// The shortest delay.
    #[doc(hidden)]
    pub fn first(&self) -> Duration {
        self.rungs[0]
    }

    /// The longest delay.
    #[doc(hidden)]
    pub fn longest(&self) -> Duration {
        self.rungs[self.rungs.len() - 1]
    }

    /// The rung for a message that is to come back after `delay`: never too early, for then it
    /// would only be held.
    #[doc(hidden)]
    pub fn rung_for(&self, delay: Duration) -> Duration {
        let long_enough = self.rungs.iter().find(|rung| **rung >= delay);
        *long_enough.unwrap_or(&self.longest())
    }

    /// The rung for a message whose key is held, for `remaining` still, and that has been here
    /// `conflicts` times because of that: a longer one each time.
    #[doc(hidden)]
    pub fn rung_after(&self, conflicts: u32, remaining: Duration) -> Duration {
        let number = usize::try_from(conflicts).unwrap_or(usize::MAX);
        let longer_each_time = *self.rungs.get(number).unwrap_or(&self.longest());
        let fitting = self.rungs.iter().rfind(|rung| **rung <= remaining);
        fitting.map_or(longer_each_time, |rung| longer_each_time.max(*rung))
    }
}

impl Ladder {
    /// The rung for a message that has been here so many times: a longer one each time, but none
    /// that is longer than this, unless the first is.
    #[doc(hidden)]
    pub fn rung_within(&self, times: u32, longest: Duration) -> Duration {
        let number = usize::try_from(times).unwrap_or(usize::MAX);
        let mut fitting = self.rungs.iter().take_while(|rung| **rung <= longest);
        let last = fitting.clone().last();
        *fitting.nth(number).or(last).unwrap_or(&self.rungs[0])
    }
}

impl Default for Ladder {
    fn default() -> Self {
        let rungs = [
            Duration::from_secs(1),
            Duration::from_secs(5),
            Duration::from_secs(15),
            Duration::from_mins(1),
            Duration::from_mins(5),
            Duration::from_mins(15),
            Duration::from_hours(1),
        ];
        Self {
            rungs: rungs.into(),
        }
    }
}

fn check(rung: Duration) -> Result<(), LadderError> {
    if !(Ladder::SHORTEST_RUNG..=Ladder::LONGEST_RUNG).contains(&rung) {
        return Err(LadderError::OutOfRange { rung });
    }
    if !rung.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(LadderError::Fraction { rung });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
