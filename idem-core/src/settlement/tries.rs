//! One message from try to try: what is known of it, and what comes next. Pure.
//!
//! Who runs its handler tells what each try came to, and does what comes next. What must stay true:
//!
//! - A replay starts over at most once.
//! - The time of a conflict counts from its first answer.
//! - What could not be handled waits no longer than its kind allows ([`settle`]).

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Settlement,
    circumstances::{Circumstances, Counted, Delivered, Retries},
    settle,
};
use crate::{
    executor::{Execution, ExecutionKind as Kind, Prepared, Turn},
    handler::Operation,
};

#[cfg(test)]
mod tests;

/// The tries of one delivery.
#[derive(Debug)]
pub struct Tries<'q> {
    circumstances: Circumstances<'q>,
    starts_over: bool,
    conflict_since: Option<Instant>,
}

/// What a try came to: the handler ran, or the key was refused, or that was known without asking the store.
#[derive(Debug)]
pub struct Tried {
    /// How it ended.
    pub kind: Kind,
    /// If the key was held elsewhere: how long the holder's lease still lasts.
    pub remaining: Option<Duration>,
    /// If the handler failed: how long to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// Whether only the delivery counts this attempt: no record does, and the broker does not.
    pub is_counted_by_delivery: bool,
    /// Whether it is a replay that was delivered before.
    pub is_replay: bool,
    /// When it ended.
    pub at: Instant,
    /// A random number from 0 to 1, by which delays are spread.
    pub random: f64,
}

impl Tried {
    /// What an execution of this message came to, just now. As if the transport counted no deliveries: one that does
    /// corrects that.
    pub fn of<H: Operation>(
        execution: &Execution<H::Output, H::Error>,
        message: &Prepared<H>,
        is_replay: bool,
    ) -> Self {
        Self {
            kind: execution.kind(),
            remaining: match execution {
                Execution::Conflict { remaining } => Some(*remaining),
                _ => None,
            },
            retry_after: match execution {
                Execution::Failed { retry_after, .. } => Some(*retry_after),
                _ => None,
            },
            // A claim that was observed only may have left no record of the attempt. So does work that is not claimed.
            is_counted_by_delivery: message.would_have_been().is_some() || message.is_unclaimed(),
            is_replay,
            at: Instant::now(),
            random: fastrand::f64(),
        }
    }
}

/// Where a delivery can wait, and for what.
#[derive(Debug, Clone, Copy, Default)]
pub struct Room {
    /// Whether it would have to wait, and found no slot to do so.
    pub is_full: bool,
    /// When its turn may come, if it is ahead in its sequence.
    pub turn: Turn,
    /// Whether those that it has to wait for may have ended here since the store was asked.
    pub is_outdated: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Try again at once.
    TryAgain,
    /// No further try follows from here: the transport carries this settlement out.
    Settle(Settlement),
    /// Wait for so long, and try again.
    Wait(Duration),
}

/// Whether the message may have to wait, and can give up its running slot meanwhile.
pub fn may_wait(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Conflict | Kind::Ahead | Kind::Failed | Kind::LeaseLost
    )
}

/// Whether somebody else has to end before it can run.
pub fn is_conflict(kind: Kind) -> bool {
    matches!(kind, Kind::Conflict | Kind::Ahead)
}

impl<'q> Tries<'q> {
    /// Those of a delivery that was not tried yet. `starts_over` if the message starts over anyway.
    pub fn new(circumstances: Circumstances<'q>, starts_over: bool) -> Self {
        Self {
            circumstances,
            starts_over,
            conflict_since: None,
        }
    }

    /// How often it has been tried.
    pub fn count(&self) -> u32 {
        self.circumstances.tries
    }

    /// Takes note of a try. `true` if the message has to start over, and be tried again.
    pub fn note(&mut self, tried: &Tried) -> bool {
        self.circumstances.tries += 1;
        if tried.is_counted_by_delivery {
            self.circumstances.counted = Counted::OnTheLadder;
        }
        // Had it been claimed when it was delivered before, it would not be late.
        if tried.kind == Kind::Late && tried.is_replay && !self.starts_over {
            self.starts_over = true;
            return true;
        }
        self.circumstances.random = tried.random;
        // Its own attempt has released the key for later, say. Or its claim was not answered, and may still arrive when
        // the lease of the other one has run out: were both dropped, the message would be lost.
        if matches!(
            tried.kind,
            Kind::Failed | Kind::LeaseLost | Kind::StoreUnavailable
        ) {
            self.circumstances.delivered = Delivered::Again;
        }
        if is_conflict(tried.kind) {
            let since = *self.conflict_since.get_or_insert(tried.at);
            self.circumstances.held = tried.at - since;
        }
        self.circumstances.remaining = tried.remaining.unwrap_or(self.circumstances.remaining);
        self.circumstances.retry_after =
            tried.retry_after.unwrap_or(self.circumstances.retry_after);
        false
    }

    /// What comes after an execution of this kind.
    pub fn next(&mut self, kind: Kind, room: Room) -> Next {
        // No slot to wait is free. The store is asked again before the message goes elsewhere.
        if room.is_full && room.is_outdated {
            return Next::TryAgain;
        }
        self.circumstances.full = room.is_full;
        self.circumstances.near = match room.turn {
            Turn::Near => true,
            // It may keep out what it waits for. The ladder lets that in.
            Turn::Elsewhere => {
                !room.is_full || !matches!(self.circumstances.retries, Retries::Ladder(_))
            }
            Turn::Far => false,
        };
        match settle(kind, &self.circumstances) {
            Settlement::Hold { recheck } => Next::Wait(recheck),
            settlement => Next::Settle(settlement),
        }
    }
}
