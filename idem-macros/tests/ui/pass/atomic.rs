use std::time::Duration;

use idem_core::{Attempt, Envelope, Executor, Failed, Outcome, Prepared, Store, StoreError, executor::RunsOn, handler::{Atomic, Handler, Operation}, idempotent, store::{Begun, Claim, ClaimRequest, Finish, Finished, Lease, Open, Release, TransactionalStore, Write}};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

struct Transaction<'c, Db>(&'c Db);

struct Books;

/// The connection stands between extractors, and a transaction has a lifetime.
#[idempotent(key = "order_id")]
async fn charge(
    order: Order,
    attempt: Attempt,
    db: &mut Transaction<'_, Books>,
    _: Attempt,
) -> Result<u32, Failed> {
    let _ = (order.order_id, db.0);
    Ok(attempt.number())
}

#[idempotent(key = "order_id")]
async fn refund(order: Order, _db: &mut Books) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[derive(Debug)]
struct Ledger;

impl Store for Ledger {
    async fn claim(&self, _: &ClaimRequest) -> Result<Claim, StoreError> {
        unreachable!()
    }
    async fn extend(&self, _: &Lease, _: Duration) -> Result<Write, StoreError> {
        unreachable!()
    }
    async fn complete(&self, _: &Lease, _: &Outcome, _: Duration) -> Result<Write, StoreError> {
        unreachable!()
    }
    async fn release(&self, _: &Lease, _: &Release) -> Result<Write, StoreError> {
        unreachable!()
    }
}

impl<Tx: Send + 'static> TransactionalStore<Tx> for Ledger {
    type Transaction = Tx;

    fn transactions(&self) -> usize {
        1
    }

    fn time_limit(&self) -> Option<Duration> {
        None
    }
    async fn begin(&self, _: &ClaimRequest) -> Result<Begun<Tx>, StoreError> {
        unreachable!()
    }
    fn lend(transaction: &mut Tx) -> &mut Tx {
        transaction
    }
    async fn is_alive(&self, _: &mut Self::Transaction) -> bool {
        true
    }

    async fn extend_open(&self, _: &Lease, _: Duration) -> Result<Write, StoreError> {
        unreachable!()
    }
    async fn open(&self, _: Open<'_>) -> Result<Tx, StoreError> {
        unreachable!()
    }
    async fn finish(&self, _: Tx, _: Finish<'_>) -> Result<Finished, StoreError> {
        unreachable!()
    }
}

/// As a worker does: the future must be `Send` for any handler.
fn consume<S: Store, H: Handler<()>>(store: S)
where
    H::Mode: RunsOn<S>,
{
    is_send(async move {
        let executor = Executor::new(store);
        let envelope = Envelope::new("{}");
        if let Ok(mut message) = Prepared::<H>::new(envelope, &H::POLICY) {
            executor.handle(&mut message, &()).await;
        }
    });
}

fn is_send<T: Send + 'static>(_: T) {}

fn is_atomic<H: Operation<Mode = Atomic<Tx>>, Tx: Send + 'static>() {}

fn main() {
    consume::<Ledger, charge>(Ledger);
    consume::<Ledger, refund>(Ledger);
    is_atomic::<charge, Transaction<'static, Books>>();
    is_atomic::<refund, Books>();

    is_send(async {
        let executor = Executor::new(Ledger);
        if let Ok(mut message) = Prepared::<charge>::new(Envelope::new("{}"), &charge::POLICY) {
            executor.handle(&mut message, &()).await;
        }
    });
}
