//! What becomes of a delivery, by how its message ended: the worker's table, with time left out.

use idem_core::{executor::ExecutionKind, handler::GivenUp};

use crate::{Flaw, Protocol};

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// Acknowledged.
    Ack,
    /// Published to the dead-letter queue, then acknowledged.
    DeadLetter,
    /// Acknowledged, and kept nowhere: it is given up, and the policy is to drop such messages.
    Drop,
    /// Published to the retry ladder, from where it comes back, then acknowledged. Where nothing
    /// goes wrong in between, that is also a delivery returned to its queue.
    SendAgain,
    /// Left to the end of its channel, from where it comes back.
    Leave,
    /// Kept, and claimed again by the same owner.
    Hold,
}

impl Protocol {
    /// What becomes of a delivery whose message ended so.
    pub(crate) fn settlement(&self, kind: ExecutionKind) -> Settlement {
        use ExecutionKind as Kind;
        match kind {
            Kind::Executed | Kind::Duplicate => Settlement::Ack,
            Kind::Failed if self.has(Flaw::FailureIsDropped) => Settlement::Drop,
            Kind::InDoubt if self.has(Flaw::DoubtIsDropped) => Settlement::Drop,
            Kind::Rejected => give_up(self.setting.policy.on_rejected()),
            Kind::Exhausted => give_up(self.setting.policy.on_exhausted()),
            Kind::InDoubt => Settlement::DeadLetter,
            Kind::Failed | Kind::LeaseLost => Settlement::SendAgain,
            Kind::Abandoned => Settlement::Leave,
            Kind::Conflict | Kind::StoreUnavailable => Settlement::Hold,
            other => unreachable!("nothing in the model ends as {other}"),
        }
    }
}

fn give_up(given_up: GivenUp) -> Settlement {
    match given_up {
        GivenUp::Ack => Settlement::Drop,
        _ => Settlement::DeadLetter,
    }
}
