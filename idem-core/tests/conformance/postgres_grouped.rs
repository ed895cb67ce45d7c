//! `PostgresStore` with each transaction shared: somebody has written in it before, and commits with it.

use std::{pin::Pin, time::Duration};

use idem_core::{
    Key, Outcome, Policy, PostgresStore, Store, StoreError,
    sqlx::{PgConnection, query},
    store::{
        Begun, Claim, ClaimRequest, Completion, Finish, Finished, GroupStore, Lease, Open, Release,
        TransactionalStore, Write,
    },
};
use idem_testing::conformance::{Harness, TransactionalHarness};
use tokio::task::JoinHandle;

use crate::{
    postgres_harness::PostgresHarness,
    postgres_level::{ReadCommitted, unique},
};

type Connections = PostgresHarness<ReadCommitted>;
type Slot = <PostgresStore as TransactionalStore<PgConnection>>::Transaction;

/// Runs the cases in company.
pub(crate) struct GroupedHarness(Connections);

/// The store, as if it lent nothing else than slots in groups.
#[derive(Debug)]
pub(crate) struct Shared(PostgresStore);

/// A slot, and how the one before it ends.
pub(crate) struct Second {
    slot: Slot,
    first: JoinHandle<Result<Finished, StoreError>>,
}

/// The name of the handler that both are of.
const HANDLER: &str = "conformance";

impl Shared {
    /// Both are in one group: the second one waits for its slot when the first one leaves.
    async fn sit_down(&self) -> Result<Second, StoreError> {
        let request = ClaimRequest::new(
            Key::new("first", unique("member")).expect("a short name"),
            &Policy::DEFAULT,
        );
        let claim = GroupStore::<PgConnection>::claim_for_group(&self.0, &request).await?;
        let Claim::Acquired(lease) = claim else {
            panic!("the key is new: {claim:?}");
        };
        let mut first = self.slot().await?;
        let second = self.slot();
        tokio::pin!(second);
        assert!(
            futures_util::poll!(&mut second).is_pending(),
            "the first one sits there"
        );
        let written = query("INSERT INTO effects (name) VALUES ($1)").bind(lease.key.as_str());
        let tx: &mut PgConnection = PostgresStore::lend(&mut first);
        written.execute(tx).await.expect("a row can be written");
        let store = self.0.clone();
        let first = tokio::spawn(async move {
            let outcome = Outcome::new("first");
            let complete =
                Finish::Complete(Completion::new(&lease, &outcome, Duration::from_mins(1)));
            TransactionalStore::<PgConnection>::finish(&store, first, complete).await
        });
        let slot = second.await?;
        Ok(Second { slot, first })
    }

    async fn slot(&self) -> Result<Slot, StoreError> {
        let group = Open::Group {
            handler: HANDLER,
            size: 2,
        };
        TransactionalStore::<PgConnection>::open(&self.0, group).await
    }
}

impl Store for Shared {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.0.claim(request).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.0.extend(lease, by).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.0.complete(lease, outcome, retention).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.0.release(lease, reason).await
    }
}

impl TransactionalStore<PgConnection> for Shared {
    type Transaction = Second;

    fn transactions(&self) -> usize {
        GroupStore::<PgConnection>::groups(&self.0)
    }

    fn time_limit(&self) -> Option<Duration> {
        None
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Second>, StoreError> {
        match GroupStore::<PgConnection>::claim_for_group(&self.0, request).await? {
            Claim::Acquired(lease) => Ok(Begun::Acquired(lease, self.sit_down().await?)),
            answer => Ok(Begun::Not(answer)),
        }
    }

    fn lend(second: &mut Second) -> &mut PgConnection {
        PostgresStore::lend(&mut second.slot)
    }

    async fn is_alive(&self, _: &mut Second) -> bool {
        true
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        TransactionalStore::<PgConnection>::extend_open(&self.0, lease, by).await
    }

    async fn open(&self, opening: Open<'_>) -> Result<Second, StoreError> {
        Err(opening.refused())
    }

    async fn finish(&self, second: Second, finish: Finish<'_>) -> Result<Finished, StoreError> {
        let Second { slot, first } = second;
        let end = TransactionalStore::<PgConnection>::finish(&self.0, slot, finish).await;
        // Then the group has ended.
        let first = first.await.expect("nothing panics");
        if let Finish::RollBack = finish {
            return end;
        }
        match (end, first) {
            (Ok(Finished::Committed), Ok(Finished::Committed)) => Ok(Finished::Committed),
            // What it has done cost the other one nothing, or both of them nothing was kept of.
            (Ok(Finished::RolledBack), _) => Ok(Finished::Refused {
                error: "rolled back".to_owned(),
            }),
            (Err(error), _) => Err(error),
            other => panic!("{other:?}"),
        }
    }
}

impl Harness for GroupedHarness {
    type Store = Shared;

    async fn start() -> Self {
        Self(PostgresHarness::start().await)
    }

    fn store(&self) -> Shared {
        Shared(self.0.store())
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by).await;
    }

    fn block_on(case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        Connections::block_on(case);
    }
}

impl TransactionalHarness for GroupedHarness {
    type Tx = PgConnection;

    async fn write_effect(tx: &mut PgConnection, name: &str) {
        Connections::write_effect(tx, name).await;
    }

    async fn roll_back_early(tx: &mut PgConnection) {
        Connections::roll_back_early(tx).await;
    }

    async fn commit_early(tx: &mut PgConnection) {
        Connections::commit_early(tx).await;
    }

    async fn swallow_an_error(tx: &mut PgConnection) {
        Connections::swallow_an_error(tx).await;
    }

    async fn effects(&self, name: &str) -> u64 {
        self.0.effects(name).await
    }
}
