//! Runs the cases of the suite on the plain store, and says which fail.

use std::{
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use idem_testing::conformance::{
    Case, Clock, DurableHarness, EntityHarness, Harness, TransactionalHarness, WorkerClockHarness,
};
use tokio::runtime::{Builder, Runtime};

use crate::{entity, flaw::Flaw, store::PlainStore, transaction::Ledger};

/// The plain store on tokio's paused clock.
pub(crate) struct PlainHarness(PlainStore);

impl PlainHarness {
    /// Must be called inside tokio.
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self(PlainStore::new(flaw))
    }
}

impl Harness for PlainHarness {
    type Store = PlainStore;
    const CLOCK: Clock = Clock::Paused;

    async fn start() -> Self {
        Self::new(None)
    }

    fn store(&self) -> PlainStore {
        self.0.clone()
    }

    async fn advance(&self, by: Duration) {
        Clock::advance_paused(by).await;
    }
}

impl DurableHarness for PlainHarness {
    async fn reopen(&self) {
        self.0.restart();
    }
}

impl TransactionalHarness for PlainHarness {
    type Tx = Ledger;

    async fn write_effect(tx: &mut Ledger, name: &str) {
        tx.write(name);
    }

    async fn roll_back_early(tx: &mut Ledger) {
        tx.end(false);
    }

    async fn commit_early(tx: &mut Ledger) {
        tx.end(true);
    }

    async fn swallow_an_error(_tx: &mut Ledger) {}

    async fn effects(&self, name: &str) -> u64 {
        self.0.effects(name) as u64
    }
}

impl EntityHarness for PlainHarness {
    const CONSTRAINT: &'static str = entity::CONSTRAINT;

    async fn insert_entity(
        tx: &mut Ledger,
        name: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(tx.insert(name)?)
    }
}

/// The plain store with a clock of its own, as a server has.
pub(crate) struct ServerHarness(PlainStore);

impl ServerHarness {
    fn new(flaw: Option<Flaw>) -> Self {
        Self(PlainStore::on_a_server(flaw))
    }
}

impl Harness for ServerHarness {
    type Store = PlainStore;

    async fn start() -> Self {
        Self::new(None)
    }

    fn store(&self) -> PlainStore {
        self.0.clone()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

impl WorkerClockHarness for ServerHarness {}

/// The cases that need a server's clock.
pub(crate) fn cases_of_servers() -> Vec<Case<ServerHarness>> {
    Case::of_server_clock()
}

/// All other cases of the suite.
pub(crate) fn cases() -> Vec<Case<PlainHarness>> {
    let mut cases = Case::of_store();
    cases.extend(Case::of_purge());
    cases.extend(Case::of_looks());
    cases.extend(Case::of_transactional_looks());
    cases.extend(Case::of_operators());
    cases.extend(Case::of_durability());
    cases.extend(Case::of_transactions());
    cases.extend(Case::of_groups());
    cases.extend(Case::of_batches());
    cases.extend(Case::of_outboxes());
    cases.extend(Case::of_entities());
    cases.extend(Case::of_sessions());
    cases.extend(Case::of_session_expiry());
    cases.extend(Case::of_durable_sessions());
    cases.extend(Case::of_transactional_sessions());
    cases.extend(Case::of_sequences());
    cases.extend(Case::of_sequence_purge());
    cases.extend(Case::of_durable_sequences());
    cases.extend(Case::of_transactional_sequences());
    cases.extend(Case::of_streams());
    cases.extend(Case::of_durable_streams());
    cases.extend(Case::of_transactional_streams());
    cases
}

/// Whether a store with this flaw fails the case.
pub(crate) fn fails<H: Flawed>(case: &Case<H>, flaw: Flaw) -> bool {
    let runtime = runtime(H::CLOCK);
    let run = || {
        runtime.block_on(async {
            case.run(&H::with(flaw)).await;
        });
    };
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

/// A harness whose store can be broken.
pub(crate) trait Flawed: Harness {
    fn with(flaw: Flaw) -> Self;
}

impl Flawed for PlainHarness {
    fn with(flaw: Flaw) -> Self {
        Self::new(Some(flaw))
    }
}

impl Flawed for ServerHarness {
    fn with(flaw: Flaw) -> Self {
        Self::new(Some(flaw))
    }
}

pub(crate) fn paused_runtime() -> Runtime {
    runtime(Clock::Paused)
}

fn runtime(clock: Clock) -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(clock == Clock::Paused)
        .build()
        .expect("a runtime can be built")
}
