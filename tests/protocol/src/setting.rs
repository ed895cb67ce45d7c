//! What is set up before anything happens: which mode, how many of each, what may go wrong.

use std::fmt;

use idem_core::{
    Policy,
    handler::{InDoubt, OnConflict},
};

/// A finite piece of the world to be checked exhaustively.
#[derive(Debug, Clone)]
pub struct Setting {
    /// How handlers run.
    pub mode: Mode,
    /// Maximum attempts, and what is done in doubt.
    pub policy: Policy,
    /// How many copies of each message the queue holds at first.
    pub copies: Vec<u8>,
    /// How many deliveries can be attended to at once.
    pub workers: usize,
    /// How many things may go wrong, of any kind. All else may happen as often as it can.
    pub faults: u8,
}

/// How handlers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The effect is a step of its own, and so is the completion.
    Leased,
    /// The effect is committed with the completion or not at all.
    Atomic,
}

impl Setting {
    /// Whether a copy is dropped that comes while its key is held.
    pub fn drops_copies(&self) -> bool {
        self.policy.on_conflict() == OnConflict::Ack
    }

    /// Whether an effect may happen twice: if it is not committed with its completion, and is
    /// tried again in doubt.
    pub fn repeats_effects(&self) -> bool {
        self.mode == Mode::Leased && self.policy.in_doubt() == InDoubt::Retry
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}, in doubt {:?}, {} workers, copies {:?}, {} attempts, {} faults",
            self.mode,
            self.policy.in_doubt(),
            self.workers,
            self.copies,
            self.policy.max_attempts(),
            self.faults
        )
    }
}
