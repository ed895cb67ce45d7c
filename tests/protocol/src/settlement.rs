//! What becomes of a delivery, by how its message ended: the worker's table, with time left out.

use idem_core::executor::ExecutionKind;

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// Acknowledged.
    Ack,
    /// Published to the dead-letter queue, then acknowledged.
    DeadLetter,
    /// Published to the retry ladder, from where it comes back, then acknowledged. Where nothing
    /// goes wrong in between, that is also a delivery returned to its queue.
    SendAgain,
    /// Left to the end of its channel, from where it comes back.
    Leave,
    /// Kept, and claimed again by the same owner.
    Hold,
}

impl From<ExecutionKind> for Settlement {
    fn from(kind: ExecutionKind) -> Self {
        use ExecutionKind as Kind;
        match kind {
            Kind::Executed | Kind::Duplicate => Self::Ack,
            Kind::Rejected | Kind::Exhausted | Kind::InDoubt => Self::DeadLetter,
            Kind::Failed | Kind::LeaseLost => Self::SendAgain,
            Kind::Abandoned => Self::Leave,
            Kind::Conflict | Kind::StoreUnavailable => Self::Hold,
            other => unreachable!("nothing in the model ends as {other}"),
        }
    }
}
