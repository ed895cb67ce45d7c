//! What callers ask of the writer, and how they hear the answer.

use std::time::Duration;

use tokio::sync::oneshot;

use super::fault::Fault;
use crate::{
    handler::Outcome,
    message::{Key, SessionKey},
    store::{
        Claim, ClaimRequest, OpenSession, Opened, Release, StoreError, Touched, Write,
        operator::{Intervened, Intervention},
        rules::record::{self, Record, Step},
    },
};

#[derive(Debug)]
pub(super) enum Call {
    Claim {
        request: ClaimRequest,
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
}

/// A write under a lease.
#[derive(Debug)]
pub(super) enum Change {
    Extend {
        by: Duration,
    },
    Complete {
        outcome: Outcome,
        retention: Duration,
    },
    Release {
        reason: Release,
    },
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
            Self::Purge { .. } | Self::Session(_) | Self::Operator(_) => None,
        }
    }

    /// What was found does not count.
    pub(super) fn fail(&mut self, error: StoreError) {
        match self {
            Self::Claim { reply, .. } => reply.hold(Err(error)),
            Self::Write { reply, .. } => reply.hold(Err(error)),
            Self::Purge { reply, .. } => reply.hold(Err(error)),
            Self::Session(_) | Self::Operator(_) => {}
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
        }
    }
}

impl Change {
    pub(super) fn step(&self, record: Option<&Record>, token: i64, now: i64) -> Step<Write> {
        match self {
            Self::Extend { by } => record::extend(record, token, *by, now),
            Self::Complete { outcome, retention } => {
                record::complete(record, token, outcome, *retention, now)
            }
            Self::Release { reason } => record::release(record, token, reason, now),
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
