//! Calls that share a command.

use redis::{RedisResult, Value};
use tokio::sync::oneshot;

use super::{calls::Call, fault::Fault};

pub(super) type Answer = Result<Value, Fault>;

/// A call whose caller waits for the answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) call: Call,
    pub(super) caller: oneshot::Sender<Answer>,
}

impl Waiting {
    fn is_wanted(&self) -> bool {
        !(self.call.may_be_dropped && self.caller.is_closed())
    }

    pub(super) fn tell(self, answer: Answer) {
        // A caller that was dropped meanwhile does not care.
        let _ = self.caller.send(answer);
    }
}

/// Calls in the order in which they came, as many as the server may carry out in one go: while it
/// does, it does nothing else.
#[derive(Debug, Default)]
pub(super) struct Batch {
    calls: Vec<Waiting>,
    bytes: usize,
}

impl Batch {
    const MAX_CALLS: usize = 256;
    /// A larger call goes alone.
    const MAX_BYTES: usize = 1 << 20;

    pub(super) fn has_room_for(&self, waiting: &Waiting) -> bool {
        let bytes = self.bytes + waiting.call.size();
        self.calls.is_empty() || self.calls.len() < Self::MAX_CALLS && bytes <= Self::MAX_BYTES
    }

    /// Adds a call, unless nobody wants it any more.
    pub(super) fn push(&mut self, waiting: Waiting) {
        if waiting.is_wanted() {
            self.bytes += waiting.call.size();
            self.calls.push(waiting);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn calls(&self) -> Vec<&Call> {
        self.calls.iter().map(|waiting| &waiting.call).collect()
    }

    /// Tells each caller its answer, or all of them that nothing is known.
    pub(super) fn tell(self, answers: Result<Vec<RedisResult<Value>>, Fault>) -> Result<(), Fault> {
        match answers {
            Ok(answers) => {
                for (waiting, answer) in self.calls.into_iter().zip(answers) {
                    waiting.tell(answer.map_err(Fault::from));
                }
                Ok(())
            }
            Err(fault) => {
                tracing::debug!(error = %fault, calls = self.calls.len(), "a batch was not answered");
                for waiting in self.calls {
                    waiting.tell(Err(fault.clone()));
                }
                Err(fault)
            }
        }
    }
}
