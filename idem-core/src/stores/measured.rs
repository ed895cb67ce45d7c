//! A store whose calls are measured: the executor's own way to the store.

use std::time::Duration;

use tracing::{Instrument as _, Span};

use crate::telemetry::{Counter, Histogram, Metric, Stopwatch, spans};
use crate::{
    handler::Outcome,
    message::PositionKind,
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError, Write},
};

mod answer;
mod batch;
mod group;
mod recorded_by;
mod transactional;

use answer::Answer;

const CALL: Metric = Metric {
    name: "idem_store_seconds",
    help: "Calls of the store, from the question to its answer.",
};
const ERRORS: Metric = Metric {
    name: "idem_store_errors_total",
    help: "Calls that the store could not answer.",
};
const FENCED: Metric = Metric {
    name: "idem_fenced_writes_total",
    help: "Writes that the store refused, because their lease was no longer the current one.",
};

/// A store, and what is measured of it.
#[derive(Debug)]
pub(crate) struct Measured<S> {
    store: S,
    calls: Calls,
}

#[derive(Debug)]
struct Calls {
    claim: Call,
    extend: Call,
    complete: Call,
    release: Call,
    begin: Call,
    claim_ahead: Call,
    commit: Call,
}

/// One kind of call.
#[derive(Debug)]
struct Call {
    seconds: Histogram,
    errors: Counter,
    fenced: Counter,
}

/// A call under way.
struct Asked<'a> {
    call: &'a Call,
    span: Span,
    began: Stopwatch,
}

impl<S> Measured<S> {
    pub(crate) fn new(store: S) -> Self {
        Self {
            store,
            calls: Calls {
                claim: Call::named("claim"),
                extend: Call::named("extend"),
                complete: Call::named("complete"),
                release: Call::named("release"),
                begin: Call::named("begin"),
                claim_ahead: Call::named("claim_ahead"),
                commit: Call::named("commit"),
            },
        }
    }

    /// The store itself.
    pub(crate) fn store(&self) -> &S {
        &self.store
    }
}

impl Call {
    fn named(call: &'static str) -> Self {
        let labels = [("call", call)];
        Self {
            seconds: Histogram::register(CALL, &labels),
            errors: Counter::register(ERRORS, &labels),
            fenced: Counter::register(FENCED, &labels),
        }
    }

    /// The call begins. It is awaited where it is made: a future that is handed on has room for it twice.
    fn ask(&self, span: Span) -> Asked<'_> {
        Asked {
            call: self,
            span,
            began: Stopwatch::start(),
        }
    }
}

impl Asked<'_> {
    fn span(&self) -> Span {
        self.span.clone()
    }

    fn answered<T: Answer>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.call.seconds.record(self.began);
        match &answer {
            Ok(answer) => {
                if answer.is_fenced() {
                    self.call.fenced.add();
                }
                spans::answered(&self.span, answer.label(), answer.attempt());
            }
            Err(error) => {
                self.call.errors.add();
                spans::unanswered(&self.span, error.kind(), error);
            }
        }
        answer
    }
}

impl<S: Store> Store for Measured<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let asked = self.calls.claim.ask(spans::claim(request.key.as_str()));
        let answer = self.store.claim(request).instrument(asked.span()).await;
        asked.answered(answer)
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let asked = self.calls.extend.ask(Span::none());
        let answer = self.store.extend(lease, by).instrument(asked.span()).await;
        asked.answered(answer)
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let asked = self.calls.complete.ask(spans::complete(lease.key.as_str()));
        let answer = self
            .store
            .complete(lease, outcome, retention)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        let asked = self.calls.release.ask(spans::release(lease.key.as_str()));
        let answer = self
            .store
            .release(lease, reason)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.store.keeps(kind)
    }
}
