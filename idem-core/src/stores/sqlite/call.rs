//! What callers ask of the writer, and how they hear the answer.

use std::time::Duration;

use tokio::sync::oneshot;

use super::fault::Fault;
use crate::{
    handler::OutgoingId,
    message::{Key, SessionKey},
    store::{
        Claim, ClaimRequest, OpenSession, Opened, Owner, StoreError, StreamClaim, StreamState,
        Touched, Write,
        operator::{Intervened, Intervention},
        outbox::{OutboxChange, Taken, Unpublished},
        rules::record::Change,
    },
};

#[derive(Debug)]
pub(super) enum Call {
    Claim {
        request: ClaimRequest,
        /// Whether it is for a handler whose writes are committed with the completion.
        is_atomic: bool,
        reply: Reply<Claim>,
    },
    Write {
        key: Key,
        token: i64,
        change: Change,
        reply: Reply<Write>,
    },
    Purge {
        batch: u32,
        reply: Reply<u32>,
    },
    Session(SessionCall),
    Operator(OperatorCall),
    Outbox(OutboxCall),
    Stream(StreamCall),
}

/// What callers ask of the writer about sessions.
#[derive(Debug)]
pub(super) enum SessionCall {
    Open {
        request: OpenSession,
        reply: Reply<Opened>,
    },
    Touch {
        session: SessionKey,
        reply: Reply<Touched>,
    },
    Close {
        session: SessionKey,
        reply: Reply<()>,
    },
    Expire {
        batch: u32,
        reply: Reply<u32>,
    },
}

impl SessionCall {
    /// Tells the caller what was found, or that the commit failed.
    pub(super) fn answer(self, committed: &Result<(), Fault>) {
        match self {
            Self::Open { reply, .. } => reply.send(committed),
            Self::Touch { reply, .. } => reply.send(committed),
            Self::Close { reply, .. } => reply.send(committed),
            Self::Expire { reply, .. } => reply.send(committed),
        }
    }
}

/// What operators ask of the writer.
#[derive(Debug)]
pub(super) enum OperatorCall {
    Intervene {
        intervention: Intervention,
        reply: Reply<Intervened>,
    },
    Prepare {
        reply: Reply<()>,
    },
}

impl OperatorCall {
    pub(super) fn answer(self, committed: &Result<(), Fault>) {
        match self {
            Self::Intervene { reply, .. } => reply.send(committed),
            Self::Prepare { reply } => reply.send(committed),
        }
    }
}

/// What is asked of the outbox.
#[derive(Debug)]
pub(super) struct OutboxCall {
    pub(super) ask: OutboxAsk,
    pub(super) reply: Reply<OutboxAnswer>,
}

#[derive(Debug)]
pub(super) enum OutboxAsk {
    Take { most: usize, lease: Duration },
    Remove(Vec<OutgoingId>),
    Note(Vec<Unpublished>),
    Change(OutboxChange),
}

#[derive(Debug)]
pub(super) enum OutboxAnswer {
    Taken(Vec<Taken>),
    /// The number of messages that were changed.
    Changed(u64),
}

/// What is asked about a stream.
#[derive(Debug)]
pub(super) struct StreamCall {
    pub(super) stream: Key,
    pub(super) ask: StreamAsk,
    pub(super) reply: Reply<StreamAnswer>,
}

#[derive(Debug)]
pub(super) enum StreamAsk {
    Claim {
        owner: Owner,
        lease: Duration,
    },
    Extend {
        token: i64,
        mark: Option<u64>,
        by: Duration,
    },
    Release {
        token: i64,
        mark: Option<u64>,
    },
    Look,
    Set(Option<u64>),
}

#[derive(Debug)]
pub(super) enum StreamAnswer {
    Claimed(StreamClaim),
    Written(Write),
    Seen(Option<StreamState>),
}

/// An answer that is held back until the batch is committed.
#[derive(Debug)]
pub(super) struct Reply<T> {
    answer: Option<Result<T, StoreError>>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl Call {
    /// The record that it concerns, if it concerns nothing else.
    pub(super) fn record(&self) -> Option<&Key> {
        match self {
            Self::Claim { request, .. } => request.position.is_none().then_some(&request.key),
            Self::Write { key, .. } => Some(key),
            Self::Purge { .. }
            | Self::Session(_)
            | Self::Operator(_)
            | Self::Outbox(_)
            | Self::Stream(_) => None,
        }
    }

    /// Whether what it writes has to be on the disk before its caller hears of it.
    pub(super) fn must_last(&self) -> bool {
        match self {
            // Lost with the power, it is an attempt that was never made: its handler's writes come later in the log,
            // and are lost, too.
            Self::Claim {
                request, is_atomic, ..
            } => !is_atomic || !request.position.is_none(),
            _ => !self.may_be_lost(),
        }
    }

    /// Whether nobody waits until it is on the disk, and nothing that comes behind it in the log makes up for it.
    pub(super) fn may_be_lost(&self) -> bool {
        match self {
            // A lease whose process has lost its power may as well end sooner.
            Self::Write { change, .. } => matches!(change, Change::Extend { .. }),
            // What was published is published again.
            Self::Outbox(call) => matches!(call.ask, OutboxAsk::Remove(_) | OutboxAsk::Note(_)),
            // What is delivered again from an earlier mark has been handled.
            Self::Stream(call) => matches!(call.ask, StreamAsk::Extend { .. } | StreamAsk::Look),
            _ => false,
        }
    }

    /// Whether its caller may hear the answer before that is on the disk.
    ///
    /// What tells that nothing is to be done any more may not: a copy of the message is acknowledged for it, and what
    /// it tells of, perhaps of another process, may be lost with the power.
    pub(super) fn is_soon_told(&self) -> bool {
        if let Self::Outbox(call) = self
            && let Some(Ok(OutboxAnswer::Taken(taken))) = &call.reply.answer
        {
            // What is published must be on the disk.
            return taken.is_empty();
        }
        let tells_the_end = match self {
            Self::Claim { reply, .. } => !matches!(
                reply.answer,
                Some(Ok(Claim::Acquired(_) | Claim::Held { .. }))
            ),
            _ => false,
        };
        !self.must_last() && !tells_the_end
    }

    /// What was found does not count.
    pub(super) fn fail(&mut self, error: StoreError) {
        match self {
            Self::Claim { reply, .. } => reply.hold(Err(error)),
            Self::Write { reply, .. } => reply.hold(Err(error)),
            Self::Purge { reply, .. } => reply.hold(Err(error)),
            Self::Session(_) | Self::Operator(_) | Self::Outbox(_) | Self::Stream(_) => {}
        }
    }

    /// Tells the caller what was found, or that the commit failed.
    pub(super) fn answer(self, committed: &Result<(), Fault>) {
        match self {
            Self::Claim { reply, .. } => reply.send(committed),
            Self::Write { reply, .. } => reply.send(committed),
            Self::Purge { reply, .. } => reply.send(committed),
            Self::Session(call) => call.answer(committed),
            Self::Operator(call) => call.answer(committed),
            Self::Outbox(call) => call.reply.send(committed),
            Self::Stream(call) => call.reply.send(committed),
        }
    }
}

impl<T> Reply<T> {
    pub(super) fn new(caller: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self {
            answer: None,
            caller,
        }
    }

    pub(super) fn hold(&mut self, answer: Result<T, StoreError>) {
        self.answer = Some(answer);
    }

    /// Whether the caller's future was dropped.
    pub(super) fn is_unwanted(&self) -> bool {
        self.caller.is_closed()
    }

    pub(super) fn send(self, committed: &Result<(), Fault>) {
        let answer = match (committed, self.answer) {
            (Ok(()), Some(answer)) => answer,
            (Ok(()), None) => Err(StoreError::unavailable("the call was not carried out")),
            (Err(fault), _) => Err(fault.unavailable()),
        };
        // A caller that was dropped meanwhile does not care.
        let _ = self.caller.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        handler::{Outcome, OutgoingContent, Policy},
        message::Key,
        store::Release,
    };

    fn claim(is_atomic: bool, answer: Claim) -> Call {
        let (caller, _) = oneshot::channel();
        let mut reply = Reply::new(caller);
        reply.hold(Ok(answer));
        Call::Claim {
            request: ClaimRequest::new(Key::new("orders", 1).unwrap(), &Policy::DEFAULT),
            is_atomic,
            reply,
        }
    }

    fn write(change: Change) -> Call {
        let (caller, _) = oneshot::channel();
        Call::Write {
            key: Key::new("orders", 1).unwrap(),
            token: 1,
            change,
            reply: Reply::new(caller),
        }
    }

    fn outbox(ask: OutboxAsk, answer: OutboxAnswer) -> Call {
        let (caller, _) = oneshot::channel();
        let mut reply = Reply::new(caller);
        reply.hold(Ok(answer));
        Call::Outbox(OutboxCall { ask, reply })
    }

    fn take(taken: Vec<Taken>) -> Call {
        let lease = Duration::from_secs(30);
        let ask = OutboxAsk::Take { most: 10, lease };
        outbox(ask, OutboxAnswer::Taken(taken))
    }

    #[test]
    fn what_must_be_on_the_disk_before_it_is_told() {
        let id: OutgoingId = "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90".parse().unwrap();
        let content = OutgoingContent {
            message_id: "orders:1#0".into(),
            target: "shipping".into(),
            head: Vec::new(),
            body: Vec::new(),
        };
        let taken = Taken::new(id, 1, false, content);
        let changed = || OutboxAnswer::Changed(1);
        let again = Unpublished::give_up(id, 1, "no such queue");
        let held = || Claim::Held {
            remaining: Duration::from_secs(1),
        };
        let retention = Duration::from_secs(1);
        let outcome = Outcome::new("done");
        let reason = Release::failed("no");
        // Call, whether its batch is synced for it, whether it is told before that.
        let table = [
            (claim(false, held()), true, false),
            (claim(true, held()), false, true),
            (claim(true, Claim::Quarantined), false, false),
            (write(Change::Extend { by: retention }), false, true),
            (write(Change::Complete { outcome, retention }), true, false),
            (write(Change::Release { reason }), true, false),
            // It is published by who is told, and must not be undone after that.
            (take(vec![taken]), true, false),
            (take(Vec::new()), true, true),
            (outbox(OutboxAsk::Remove(vec![id]), changed()), false, true),
            (outbox(OutboxAsk::Note(vec![again]), changed()), false, true),
            (
                outbox(OutboxAsk::Change(OutboxChange::Discard(id)), changed()),
                true,
                false,
            ),
        ];
        for (call, must_last, is_soon_told) in table {
            assert_eq!(call.must_last(), must_last, "{call:?}");
            assert_eq!(call.is_soon_told(), is_soon_told, "{call:?}");
        }
    }
}
