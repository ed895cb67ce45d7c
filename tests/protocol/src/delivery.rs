//! A delivery, and how far it has come.

use idem_core::{FencingToken, executor::ExecutionKind, store::Lease};

use crate::{Ask, Reason};

/// A copy of a message that a worker sees through.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delivery {
    /// Which message it is.
    pub message: usize,
    /// Whether the channel lives by which it came. If not, the broker has it back.
    pub attached: bool,
    /// Whether it cannot hold its key: it is no redelivery, and no claim of its was left unanswered. Told apart only
    /// where copies are dropped.
    pub is_first: bool,
    /// Whose claims these are; `None` while no claim of this owner is known to the store or under
    /// way to it, because then one new owner is as good as the other.
    pub owner: Option<u8>,
    /// How far it has come.
    pub phase: Phase,
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It claims the key, for the first time or again: held, or not answered.
    Claiming,
    /// The handler runs.
    Running(Grant),
    /// Leased: the handler has returned, and its completion is repeated until the store has told.
    Completing(FencingToken),
    /// Atomic: the handler has returned, and its transaction is open.
    Committing(Grant),
    /// Atomic: the commit was not answered, and a claim by the same owner shall tell.
    Doubting(FencingToken),
    /// Atomic: the key is completed, and repeating the completion tells by whom.
    Attributing(FencingToken),
    /// The key is given back, until the store has told.
    Releasing(FencingToken, Reason, Afterwards),
    /// What the message came to is to be published, or its delivery returned.
    Settling(ExecutionKind),
    /// The delivery is to be acknowledged.
    Acking(ExecutionKind),
}

/// A lease that a worker was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// The fencing token.
    pub token: FencingToken,
    /// Which attempt it is.
    pub attempt: u32,
    /// Whether the handler is told that its effect may have happened.
    pub in_doubt: bool,
}

/// How a message ends whose key is being given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Afterwards {
    /// So; but if the release is fenced, the lease was lost.
    Ran(ExecutionKind),
    /// So in any case, because nothing ran.
    Unrun(ExecutionKind),
}

impl Delivery {
    /// A message that has just come.
    pub(crate) fn new(message: usize, owner: Option<u8>) -> Self {
        Self {
            message,
            attached: true,
            is_first: false,
            owner,
            phase: Phase::Claiming,
        }
    }

    /// Under which lease it writes.
    pub fn token(&self) -> Option<FencingToken> {
        match self.phase {
            Phase::Running(grant) | Phase::Committing(grant) => Some(grant.token),
            Phase::Completing(token)
            | Phase::Doubting(token)
            | Phase::Attributing(token)
            | Phase::Releasing(token, ..) => Some(token),
            Phase::Claiming | Phase::Settling(_) | Phase::Acking(_) => None,
        }
    }

    /// The same, with its lease under another name.
    pub(crate) fn rename_token(&mut self, new: impl FnOnce(FencingToken) -> FencingToken) {
        match &mut self.phase {
            Phase::Running(Grant { token, .. })
            | Phase::Committing(Grant { token, .. })
            | Phase::Completing(token)
            | Phase::Doubting(token)
            | Phase::Attributing(token)
            | Phase::Releasing(token, ..) => *token = new(*token),
            Phase::Claiming | Phase::Settling(_) | Phase::Acking(_) => {}
        }
    }

    /// Whether its owner may have to claim once more. In atomic mode also after the handler ran.
    pub(crate) fn may_claim_again(&self) -> bool {
        match self.phase {
            Phase::Claiming | Phase::Running(_) | Phase::Committing(_) | Phase::Doubting(_) => true,
            Phase::Completing(_)
            | Phase::Attributing(_)
            | Phase::Releasing(..)
            | Phase::Settling(_)
            | Phase::Acking(_) => false,
        }
    }

    /// What the store has to be asked for the delivery to go on.
    pub(crate) fn ask(&self, new_owner: u8) -> Option<Ask> {
        let owner = self.owner.unwrap_or(new_owner);
        match self.phase {
            Phase::Claiming | Phase::Doubting(_) => Some(Ask::Claim(owner)),
            Phase::Completing(token) | Phase::Attributing(token) => Some(Ask::Complete(token)),
            Phase::Committing(grant) => Some(Ask::Commit(grant.token)),
            Phase::Releasing(token, reason, _) => Some(Ask::Release(token, reason)),
            Phase::Running(_) | Phase::Settling(_) | Phase::Acking(_) => None,
        }
    }
}

impl From<&Lease> for Grant {
    fn from(lease: &Lease) -> Self {
        Self {
            token: lease.token,
            attempt: lease.attempt,
            in_doubt: lease.in_doubt,
        }
    }
}
