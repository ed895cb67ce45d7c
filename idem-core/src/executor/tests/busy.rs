//! A store whose transactions have to be waited for.

use std::marker::PhantomData;

use futures_util::{FutureExt as _, future::BoxFuture};

use super::*;
use crate::{
    handler::{Context, DecodeError, Mode, Operation, Outcome, Rejection},
    message::{Envelope, KeyError},
    store::{
        Begun, Finished, GroupStore, Lease, Opening, StoreError, TransactionalStore,
        operator::{Intervened, Intervention, OperatorStore as _},
    },
    stores::MemoryStore,
};

/// A store whose transactions hold nothing and have to be waited for, and whose groups are all rolled
/// back unless it is said that they commit.
#[derive(Debug, Clone)]
pub(super) struct Busy {
    pub(super) store: MemoryStore,
    pub(super) wait: Duration,
    pub(super) claims_ahead: bool,
    /// Groups do, after as long as a transaction is waited for.
    pub(super) groups_commit: bool,
    /// No transaction can be opened.
    pub(super) is_down: bool,
}

/// What it lends.
#[derive(Debug)]
pub(super) struct Blank;

impl Busy {
    pub(super) fn new(store: &MemoryStore, wait: Duration) -> Self {
        Self {
            store: store.clone(),
            wait,
            claims_ahead: false,
            groups_commit: false,
            is_down: false,
        }
    }

    async fn open(&self) -> Result<Blank, StoreError> {
        sleep(self.wait).await;
        if self.is_down {
            return Err(StoreError::unavailable("no connection"));
        }
        Ok(Blank)
    }
}

impl Store for Busy {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim(request).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.store.extend(lease, by).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.store.complete(lease, outcome, retention).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.store.release(lease, reason).await
    }
}

impl TransactionalStore<Blank> for Busy {
    type Transaction = Blank;

    fn transactions(&self) -> usize {
        1
    }

    fn time_limit(&self) -> Option<Duration> {
        None
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Blank>, StoreError> {
        let blank = self.open().await?;
        Ok(match self.claim(request).await? {
            Claim::Acquired(lease) => Begun::Acquired(lease, blank),
            answer => Begun::Not(answer),
        })
    }

    fn is_busy(&self) -> bool {
        self.claims_ahead
    }

    async fn claim_ahead(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<Opening<'_, Blank>>, StoreError> {
        Ok(match self.claim(request).await? {
            Claim::Acquired(lease) => Begun::Acquired(lease, self.open().boxed()),
            answer => Begun::Not(answer),
        })
    }

    fn lend(blank: &mut Blank) -> &mut Blank {
        blank
    }

    async fn is_alive(&self, _: &mut Blank) -> bool {
        true
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.extend(lease, by).await
    }

    async fn commit(
        &self,
        _: Blank,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Finished, StoreError> {
        Ok(match self.complete(lease, outcome, retention).await? {
            Write::Applied => Finished::Committed,
            Write::Fenced => Finished::Fenced,
        })
    }

    async fn roll_back(&self, _: Blank) {}
}

impl GroupStore<Blank> for Busy {
    type Slot = Blank;

    fn groups(&self) -> usize {
        1
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim(request).await
    }

    async fn slot(&self, _: &'static str, _: usize) -> Result<Blank, StoreError> {
        Ok(Blank)
    }

    fn lend_slot(slot: &mut Blank) -> &mut Blank {
        slot
    }

    fn leave(
        &self,
        _: Blank,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> BoxFuture<'static, Result<Finished, StoreError>> {
        let (busy, lease, outcome) = (self.clone(), lease.clone(), outcome.clone());
        let left = async move {
            if !busy.groups_commit {
                return Ok(Finished::RolledBack);
            }
            sleep(busy.wait).await;
            let completed = busy.complete(&lease, &outcome, retention).await;
            assert_eq!(completed.unwrap(), Write::Applied);
            Ok(Finished::Committed)
        };
        left.boxed()
    }
}

/// Remembers which attempt it was, and counts its runs.
pub(super) struct Charge<M>(PhantomData<M>);

impl<M: Mode + Send + Sync + 'static> Operation for Charge<M> {
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = M;
    const SCOPE: &'static str = "orders";

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(_: &u32, _: &Envelope) -> Result<Key, KeyError> {
        Ok(key())
    }
}

impl<M> Handler<AtomicU32> for Charge<M>
where
    M: for<'a> Mode<Lent<'a> = &'a mut Blank> + Send + Sync + 'static,
{
    fn call<'a>(
        _: u32,
        context: &'a Context<'a, AtomicU32>,
        _: &'a mut Blank,
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        Ok(async move {
            context.state.fetch_add(1, SeqCst);
            Ok(context.attempt.number())
        })
    }
}

pub(super) async fn claim(store: &MemoryStore) -> Claim {
    let request = ClaimRequest::new(key(), &Policy::DEFAULT);
    store.claim(&request).await.unwrap()
}

/// What an operator does while the message waits.
pub(super) async fn complete_by_hand_later(store: &MemoryStore) {
    sleep(LEASE).await;
    let shown = store.show(&key()).await.unwrap();
    let seen = shown.record.map(|record| record.seen());
    let outcome = Outcome::new("7");
    let complete = Intervention::complete(key(), seen, "operator@ops-1", outcome, LEASE * 100);
    let intervened = store.intervene(&complete).await.unwrap();
    assert_eq!(intervened, Intervened::Applied);
}
