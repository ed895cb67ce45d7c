//! A store whose calls are measured: the executor's own way to the store.

use std::{error::Error, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use tracing::{Instrument as _, Span};

use super::{Counter, Histogram, Metric, Stopwatch, spans};
use crate::{
    Begun, Claim, ClaimRequest, Commit, Entity, EntityError, EntityStore, GroupEnd, GroupStore,
    Lease, Outcome, Recording, Release, Store, StoreError, TransactionalStore, Write,
};

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
    commit: Arc<Call>,
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
                commit: Arc::new(Call::named("commit")),
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
                spans::unanswered(&self.span, error);
            }
        }
        answer
    }
}

/// What a store says.
trait Answer {
    /// In a word.
    fn label(&self) -> &'static str;

    fn is_fenced(&self) -> bool {
        false
    }

    /// Of a key that was acquired.
    fn attempt(&self) -> Option<u32> {
        None
    }
}

impl Answer for Claim {
    fn label(&self) -> &'static str {
        match self {
            Self::Acquired(_) => "acquired",
            Self::Held { .. } => "held",
            Self::Completed { .. } => "completed",
            Self::KeyReused => "key_reused",
            Self::Quarantined => "quarantined",
            Self::Stale => "stale",
            Self::SessionExpired => "session_expired",
            Self::BeyondWindow { .. } => "beyond_window",
            Self::Late => "late",
            Self::Ahead { .. } => "ahead",
        }
    }

    fn attempt(&self) -> Option<u32> {
        match self {
            Self::Acquired(lease) => Some(lease.attempt),
            _ => None,
        }
    }
}

impl<T> Answer for Begun<T> {
    fn label(&self) -> &'static str {
        match self {
            Self::Acquired(..) => "acquired",
            Self::Not(answer) => answer.label(),
        }
    }

    fn attempt(&self) -> Option<u32> {
        match self {
            Self::Acquired(lease, _) => Some(lease.attempt),
            Self::Not(_) => None,
        }
    }
}

/// An open transaction.
struct Opened<T>(T);

impl<T> Answer for Opened<T> {
    fn label(&self) -> &'static str {
        "opened"
    }
}

impl Answer for Write {
    fn label(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Fenced => "fenced",
        }
    }

    fn is_fenced(&self) -> bool {
        *self == Self::Fenced
    }
}

impl Answer for Commit {
    fn label(&self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Fenced => "fenced",
            Self::Refused { .. } => "refused",
        }
    }

    fn is_fenced(&self) -> bool {
        *self == Self::Fenced
    }
}

impl Answer for Recording {
    fn label(&self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Fenced => "fenced",
            Self::Violated { .. } => "violated",
            Self::Refused { .. } => "refused",
        }
    }

    fn is_fenced(&self) -> bool {
        *self == Self::Fenced
    }
}

impl<S: Store> Store for Measured<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let asked = self.calls.claim.ask(spans::claim(&request.key));
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
        let asked = self.calls.complete.ask(spans::complete(&lease.key));
        let answer = self
            .store
            .complete(lease, outcome, retention)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        let asked = self.calls.release.ask(spans::release(&lease.key));
        let answer = self
            .store
            .release(lease, reason)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    fn keeps_sequences(&self) -> bool {
        self.store.keeps_sequences()
    }
}

impl<Tx, S: TransactionalStore<Tx>> TransactionalStore<Tx> for Measured<S> {
    type Transaction = S::Transaction;

    fn transactions(&self) -> usize {
        self.store.transactions()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.store.time_limit()
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<S::Transaction>, StoreError> {
        let asked = self.calls.begin.ask(spans::claim(&request.key));
        let answer = self.store.begin(request).instrument(asked.span()).await;
        asked.answered(answer)
    }

    fn lend(transaction: &mut S::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn is_alive(&self, transaction: &mut S::Transaction) -> bool {
        self.store.is_alive(transaction).await
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let asked = self.calls.extend.ask(Span::none());
        let answer = self
            .store
            .extend_open(lease, by)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    async fn commit(
        &self,
        transaction: S::Transaction,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Commit, StoreError> {
        let asked = self.calls.commit.ask(spans::complete(&lease.key));
        let answer = self
            .store
            .commit(transaction, lease, outcome, retention)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    async fn roll_back(&self, transaction: S::Transaction) {
        self.store.roll_back(transaction).await;
    }
}

impl<Tx, S: GroupStore<Tx>> GroupStore<Tx> for Measured<S> {
    type Seat = S::Seat;

    fn groups(&self) -> usize {
        self.store.groups()
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let asked = self.calls.claim.ask(spans::claim(&request.key));
        let answer = self
            .store
            .claim_for_group(request)
            .instrument(asked.span())
            .await;
        asked.answered(answer)
    }

    async fn seat(&self, handler: &'static str, size: usize) -> Result<S::Seat, StoreError> {
        self.store.seat(handler, size).await
    }

    fn lend_seat(seat: &mut S::Seat) -> &mut Tx {
        S::lend_seat(seat)
    }

    fn leave(
        &self,
        seat: S::Seat,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> BoxFuture<'static, GroupEnd> {
        let left = self.store.leave(seat, lease, outcome, retention);
        let span = spans::complete(&lease.key);
        if cfg!(not(feature = "metrics")) && span.is_disabled() {
            return left;
        }
        let (commit, began) = (Arc::clone(&self.calls.commit), Stopwatch::start());
        let left = left.inspect(move |end| commit.ended(began, end));
        Box::pin(left.instrument(span))
    }
}

impl Call {
    /// A group has ended.
    fn ended(&self, began: Stopwatch, end: &GroupEnd) {
        self.seconds.record(began);
        let label = match end {
            GroupEnd::Committed => "committed",
            GroupEnd::WithoutCompletion => "committed_without",
            GroupEnd::RolledBack => "rolled_back",
            GroupEnd::Unknown(error) => {
                self.errors.add();
                return spans::unanswered(&Span::current(), error);
            }
        };
        spans::answered(&Span::current(), label, None);
    }
}

impl<Tx, S: EntityStore<Tx>> EntityStore<Tx> for Measured<S> {
    async fn check(&self, constraint: &'static str, columns: usize) -> Result<(), EntityError> {
        self.store.check(constraint, columns).await
    }

    async fn open(&self, entity: &Entity, wait: Duration) -> Result<S::Transaction, StoreError> {
        let asked = self.calls.begin.ask(Span::none());
        let answer = self.store.open(entity, wait).await.map(Opened);
        let answer = asked.answered(answer);
        answer.map(|Opened(transaction)| transaction)
    }

    fn violates(&self, error: &(dyn Error + 'static), entity: &Entity) -> bool {
        self.store.violates(error, entity)
    }

    async fn commit_entity(
        &self,
        transaction: S::Transaction,
        entity: &Entity,
        lease: Option<&Lease>,
    ) -> Result<Recording, StoreError> {
        let asked = self.calls.commit.ask(spans::record());
        let call = self.store.commit_entity(transaction, entity, lease);
        let answer = call.instrument(asked.span()).await;
        asked.answered(answer)
    }

    async fn is_recorded(
        &self,
        entity: &Entity,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        self.store.is_recorded(entity, lease).await
    }
}
