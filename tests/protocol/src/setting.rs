//! What is set up before anything happens: which mode, how many of each, what may go wrong.

use std::fmt;

use idem_core::{
    Policy,
    handler::{GivenUp, InDoubt, OnConflict},
};

/// A finite piece of the world to be checked exhaustively.
#[derive(Debug, Clone)]
pub struct Setting {
    /// How handlers run.
    pub mode: Mode,
    /// Maximum attempts, what is done in doubt, what becomes of copies and of what is given up.
    pub policy: Policy,
    /// Whether a handler finds its effect in its own rows, in the same step in which it would have it again, and says
    /// then that the work is done before.
    pub finds_done: bool,
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

    /// Whether what is given up is dropped, be it rejected or exhausted.
    pub fn drops_what_is_given_up(&self) -> bool {
        let ends = [self.policy.on_rejected(), self.policy.on_exhausted()];
        ends == [GivenUp::Ack; 2]
    }

    /// Whether an effect may happen twice: if it is not committed with its completion, is tried
    /// again in doubt, and its handler does not find it.
    pub fn repeats_effects(&self) -> bool {
        self.mode == Mode::Leased && self.policy.in_doubt() == InDoubt::Retry && !self.finds_done
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
