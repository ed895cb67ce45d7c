//! Transactions of the plain store: effects wait in a list until the commit.

use std::time::Duration;

use idem_core::{
    Begun, Claim, ClaimRequest, FencingToken, Finished, Lease, Opening, Outcome, Release, Store,
    StoreError, TransactionalStore, Write,
};
use tokio::task::yield_now;

use crate::{flaw::Flaw, store::PlainStore};

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
    type Transaction = Ledger;

    fn transactions(&self) -> usize {
        usize::MAX
    }

    fn time_limit(&self) -> Option<Duration> {
        None
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Ledger>, StoreError> {
        let mut ledger = Ledger::new(self);
        Ok(match self.claim_now(request)? {
            Claim::Acquired(lease) => {
                ledger.lease = Some(lease.clone());
                Begun::Acquired(lease, ledger)
            }
            Claim::Completed { .. } if self.has(Flaw::LendsToDuplicates) => {
                let token = FencingToken::new(i64::MAX);
                Begun::Acquired(Lease::new(request.key.clone(), token, 2, false), ledger)
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
    ) -> Result<Begun<Opening<'_, Ledger>>, StoreError> {
        if self.has(Flaw::PromisesOnly) {
            let lease = Lease::new(request.key.clone(), FencingToken::new(1), 1, false);
            let request = request.clone();
            let opening = async move {
                self.claim_now(&request)?;
                Ok(Ledger::new(self))
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

    fn lend(transaction: &mut Ledger) -> &mut Ledger {
        transaction
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

    async fn commit(
        &self,
        transaction: Ledger,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Finished, StoreError> {
        if transaction.ended && !self.has(Flaw::BelievesTheHandler) {
            let error = "the handler ended the transaction".to_owned();
            return Ok(refused(error));
        }
        if self.has(Flaw::CommitsInTwoSteps) {
            self.record_effects(transaction.written.clone());
            yield_now().await;
        }
        let write = self.complete(lease, outcome, retention).await?;
        if write == Write::Fenced && !self.has(Flaw::CommitsUnfenced) {
            return Ok(Finished::Fenced);
        }
        if !self.has(Flaw::LosesEffects) && !self.has(Flaw::CommitsInTwoSteps) {
            self.record_effects(transaction.written);
        }
        Ok(Finished::Committed)
    }

    async fn roll_back(&self, transaction: Ledger) {
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
