//! Transactions of the plain store: effects wait in a list until the commit.

use std::{sync::Arc, time::Duration};

use idem_core::{
    FencingToken, Outcome, Store, StoreError,
    handler::Outgoing,
    store::{
        BatchStore, Begun, Claim, ClaimRequest, Completion, Finish, Finished, GroupStore as _,
        Lease, MarkMove, Open, Opening, Release, TransactionalStore, Write, outbox::SharedOutbox,
    },
};
use tokio::task::yield_now;

use crate::{flaw::Flaw, group::Slot, store::PlainStore};

/// What a handler writes through.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) store: PlainStore,
    /// The claim, which is no part of it.
    pub(crate) lease: Option<Lease>,
    pub(crate) written: Vec<String>,
    pub(crate) entities: Vec<String>,
    pub(crate) ended: bool,
}

/// A transaction of its own, or a slot in a group.
pub(crate) enum Held {
    Own(Ledger),
    Slot(Slot),
}

impl Ledger {
    pub(crate) fn new(store: &PlainStore) -> Self {
        Self {
            store: store.clone(),
            lease: None,
            written: Vec::new(),
            entities: Vec::new(),
            ended: false,
        }
    }

    pub(crate) fn write(&mut self, name: &str) {
        if self.store.has(Flaw::EffectsAtOnce) {
            self.store.record_effects([name.to_owned()]);
        } else {
            self.written.push(name.to_owned());
        }
    }

    pub(crate) fn end(&mut self, commit: bool) {
        self.ended = true;
        let written = std::mem::take(&mut self.written);
        if commit {
            self.store.record_effects(written);
        }
    }
}

impl TransactionalStore<Ledger> for PlainStore {
    type Transaction = Held;

    fn transactions(&self) -> usize {
        usize::MAX
    }

    fn time_limit(&self) -> Option<Duration> {
        None
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Held>, StoreError> {
        let mut ledger = Ledger::new(self);
        Ok(match self.claim_now(request)? {
            Claim::Acquired(lease) => {
                ledger.lease = Some(lease.clone());
                Begun::Acquired(lease, Held::Own(ledger))
            }
            Claim::Completed { .. } if self.has(Flaw::LendsToDuplicates) => {
                let token = FencingToken::new(i64::MAX);
                let lease = Lease::new(request.key.clone(), token, 2, false);
                Begun::Acquired(lease, Held::Own(ledger))
            }
            Claim::Held { remaining } if self.has(Flaw::CallsOpenWorkDone) => {
                let outcome = Outcome::default();
                Begun::Not(Claim::Completed { outcome, remaining })
            }
            other => Begun::Not(other),
        })
    }

    async fn claim_ahead(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<Opening<'_, Held>>, StoreError> {
        if self.has(Flaw::PromisesOnly) {
            let lease = Lease::new(request.key.clone(), FencingToken::new(1), 1, false);
            let request = request.clone();
            let opening = async move {
                self.claim_now(&request)?;
                Ok(Held::Own(Ledger::new(self)))
            };
            return Ok(Begun::Acquired(lease, Box::pin(opening)));
        }
        Ok(match self.begin(request).await? {
            Begun::Acquired(mut lease, ledger) => {
                if self.has(Flaw::OpensUnderAnotherToken) {
                    lease.token = FencingToken::new(lease.token.get() + 1);
                }
                let opening: Opening<'_, _> = Box::pin(async move { Ok(ledger) });
                Begun::Acquired(lease, opening)
            }
            Begun::Not(answer) => Begun::Not(answer),
        })
    }

    fn outbox(&self) -> Option<SharedOutbox> {
        Some(Arc::new(self.clone()))
    }

    fn lend(held: &mut Held) -> &mut Ledger {
        match held {
            Held::Own(ledger) => ledger,
            Held::Slot(slot) => slot.ledger(),
        }
    }

    async fn is_alive(&self, _: &mut Self::Transaction) -> bool {
        true
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        if self.has(Flaw::ExtendsNothingAhead) {
            return Ok(Write::Applied);
        }
        self.extend(lease, by).await
    }

    async fn open(&self, opening: Open<'_>) -> Result<Held, StoreError> {
        Ok(match opening {
            Open::Group { .. } => Held::Slot(self.slot().await),
            Open::Batch | Open::Recorded { .. } => Held::Own(Ledger::new(self)),
            _ => return Err(opening.refused()),
        })
    }

    async fn finish(&self, held: Held, finish: Finish<'_>) -> Result<Finished, StoreError> {
        match (held, finish) {
            (Held::Own(ledger), Finish::Complete(it)) => self.commit(ledger, it).await,
            (Held::Slot(slot), Finish::Complete(it)) if it.mark.is_none() => {
                Ok(self.leave(slot, it.lease, it.outcome, it.retention).await)
            }
            (Held::Own(ledger), Finish::CompleteAll(completions))
                if completions.iter().all(|it| it.mark.is_none())
                    || self.has(Flaw::PassesOverMarks) =>
            {
                self.commit_batch(ledger, completions).await
            }
            (Held::Own(ledger), Finish::MoveMark { mark, outgoing }) => {
                Ok(self.commit_moving(ledger, mark, outgoing).await)
            }
            (Held::Own(ledger), Finish::Record { entity, lease }) => {
                Ok(self.commit_entity(ledger, entity, lease))
            }
            (Held::Own(ledger), Finish::RollBack) => {
                self.roll_back(ledger).await;
                Ok(Finished::RolledBack)
            }
            (Held::Slot(_), Finish::RollBack) => Ok(Finished::RolledBack),
            _ => Err(finish.refused()),
        }
    }
}

impl BatchStore<Ledger> for PlainStore {
    const MOVES_MARKS: bool = true;

    async fn claim_for_batch(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim_for_group(request).await
    }
}

impl PlainStore {
    async fn commit(
        &self,
        transaction: Ledger,
        it: Completion<'_>,
    ) -> Result<Finished, StoreError> {
        if transaction.ended && !self.has(Flaw::BelievesTheHandler) {
            let error = "the handler ended the transaction".to_owned();
            return Ok(refused(error));
        }
        if self.has(Flaw::CommitsInTwoSteps) {
            self.record_effects(transaction.written.clone());
            yield_now().await;
        }
        if let Some(mark) = it.mark {
            // Looked at first: nothing is completed without it.
            let can_move = self.stream_moved(&self.shared(), mark).is_some();
            if !can_move && !self.has(Flaw::CommitsThoughFenced) {
                return Ok(Finished::Fenced);
            }
            if self.has(Flaw::MovesMarksFirst) {
                self.move_mark(mark);
            }
        }
        let write = self.complete(it.lease, it.outcome, it.retention).await?;
        if write == Write::Fenced && !self.has(Flaw::CommitsUnfenced) {
            if self.has(Flaw::PublishesUnfenced) {
                self.send(it.outgoing);
            }
            return Ok(Finished::Fenced);
        }
        if let Some(mark) = it.mark {
            self.move_mark(mark);
        }
        self.send(it.outgoing);
        if !self.has(Flaw::LosesEffects) && !self.has(Flaw::CommitsInTwoSteps) {
            self.record_effects(transaction.written);
        }
        Ok(Finished::Committed)
    }

    async fn commit_moving(
        &self,
        transaction: Ledger,
        mark: MarkMove<'_>,
        outgoing: &[Outgoing],
    ) -> Finished {
        if transaction.ended && !self.has(Flaw::BelievesTheHandler) {
            return refused("the handler ended the transaction".to_owned());
        }
        if self.has(Flaw::CommitsInTwoSteps) {
            self.record_effects(transaction.written.clone());
            yield_now().await;
        }
        if !self.move_mark(mark) && !self.has(Flaw::CommitsThoughFenced) {
            return Finished::Fenced;
        }
        self.send(outgoing);
        if !self.has(Flaw::LosesEffects) && !self.has(Flaw::CommitsInTwoSteps) {
            self.record_effects(transaction.written);
        }
        Finished::Committed
    }

    /// Whether it was moved.
    fn move_mark(&self, mark: MarkMove<'_>) -> bool {
        let mut shared = self.shared();
        let moved = self.stream_moved(&shared, mark);
        let is_moved = moved.is_some();
        shared.streams.extend(moved);
        is_moved
    }

    async fn commit_batch(
        &self,
        transaction: Ledger,
        completions: &[Completion<'_>],
    ) -> Result<Finished, StoreError> {
        let mut completed = Vec::new();
        for it in completions {
            // Looked at first: none is completed without the others.
            let write = self.extend(it.lease, Duration::from_hours(1)).await?;
            if write == Write::Applied {
                completed.push(it);
            } else if !self.has(Flaw::CompletesPartOfABatch) {
                return Ok(Finished::Fenced);
            }
        }
        for it in completed {
            let _ = self.complete(it.lease, it.outcome, it.retention).await?;
        }
        if !self.has(Flaw::LosesEffects) {
            self.record_effects(transaction.written);
        }
        Ok(Finished::Committed)
    }

    async fn roll_back(&self, transaction: Ledger) {
        if self.has(Flaw::KeepsWhatABatchRolledBack) {
            self.record_effects(transaction.written.clone());
        }

        if self.has(Flaw::RollsBackItsRecord)
            && let Some(lease) = &transaction.lease
        {
            let _ = self.release(lease, &Release::Abandoned).await;
        }
    }
}

fn refused(error: String) -> Finished {
    Finished::Refused { error }
}
