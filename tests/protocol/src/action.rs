//! The steps of the model.

use crate::{Ask, Call};

/// What can happen next. Workers are told apart by their position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are positions in the world")]
pub enum Action {
    /// The broker delivers a message.
    Delivers { message: usize, to: usize },
    /// The broker delivers a copy that was never delivered before. Without this action, [`Self::Delivers`] is either.
    DeliversFirst { message: usize, to: usize },
    /// A worker calls the store and hears the answer.
    Calls { worker: usize, ask: Ask },
    /// A worker calls the store and hears an error; the call is under way.
    HearsNothing { worker: usize, ask: Ask },
    /// A call that was under way arrives.
    Arrives(Call),
    /// A call that was under way is lost.
    IsLost(Call),
    /// A claim is granted to a worker that has been told to stop.
    ClaimsWhileStopping { worker: usize, ask: Ask },
    /// The handler returns; a leased one's effect has happened.
    Returns { worker: usize },
    /// The handler fails, and another attempt is worth it.
    Fails { worker: usize },
    /// The handler rejects the message for good.
    Rejects { worker: usize },
    /// The dead letter, or the copy on the retry ladder, is published and confirmed.
    Publishes { worker: usize },
    /// The delivery is acknowledged.
    Acks { worker: usize },
    /// The delivery is left to its channel, which has ended or is about to.
    Leaves { worker: usize },
    /// A lease runs out, or the delay after a failure.
    TimePasses { message: usize },
    /// The worker dies.
    Crashes { worker: usize },
    /// The channel ends; the worker goes on.
    LosesChannel { worker: usize },
}
