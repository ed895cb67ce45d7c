//! A store whose transactions have to be waited for.

use std::marker::PhantomData;

use futures_util::FutureExt as _;

use super::*;
use crate::{
    handler::{Context, DecodeError, Mode, Operation, Outcome, Rejection},
    message::{Envelope, KeyError},
    store::{
        Begun, Finish, Finished, GroupStore, Lease, Open, Opening, StoreError, TransactionalStore,
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
#[derive(Debug, Default)]
pub(super) struct Blank;

/// A transaction of its own, or a slot in a group.
#[derive(Debug, Default)]
pub(super) struct Held {
    blank: Blank,
    is_slot: bool,
}

impl Held {
    fn slot() -> Self {
        Self {
            is_slot: true,
            ..Self::default()
        }
    }
}

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

    async fn begun(&self) -> Result<Held, StoreError> {
        sleep(self.wait).await;
        if self.is_down {
            return Err(StoreError::unavailable("no connection"));
        }
        Ok(Held::default())
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
    type Transaction = Held;

    fn transactions(&self) -> usize {
        1
    }

    fn time_limit(&self) -> Option<Duration> {
        None
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Held>, StoreError> {
        let held = self.begun().await?;
        Ok(match self.claim(request).await? {
            Claim::Acquired(lease) => Begun::Acquired(lease, held),
            answer => Begun::Not(answer),
        })
    }

    fn is_busy(&self) -> bool {
        self.claims_ahead
    }

    async fn claim_ahead(
        &self,
        request: &ClaimRequest,
    ) -> Result<Begun<Opening<'_, Held>>, StoreError> {
        Ok(match self.claim(request).await? {
            Claim::Acquired(lease) => Begun::Acquired(lease, self.begun().boxed()),
            answer => Begun::Not(answer),
        })
    }

    fn lend(held: &mut Held) -> &mut Blank {
        &mut held.blank
    }

    async fn is_alive(&self, _: &mut Held) -> bool {
        true
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.extend(lease, by).await
    }

    async fn open(&self, opening: Open<'_>) -> Result<Held, StoreError> {
        match opening {
            Open::Group { .. } => Ok(Held::slot()),
            Open::Recorded { .. } => Err(opening.refused()),
        }
    }

    async fn finish(&self, held: Held, finish: Finish<'_>) -> Result<Finished, StoreError> {
        let Finish::Complete {
            lease,
            outcome,
            retention,
        } = finish
        else {
            return Ok(Finished::RolledBack);
        };
        if held.is_slot {
            if !self.groups_commit {
                return Ok(Finished::RolledBack);
            }
            sleep(self.wait).await;
        }
        Ok(match self.complete(lease, outcome, retention).await? {
            Write::Applied => Finished::Committed,
            Write::Fenced => Finished::Fenced,
        })
    }
}

impl GroupStore<Blank> for Busy {
    fn groups(&self) -> usize {
        1
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim(request).await
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
