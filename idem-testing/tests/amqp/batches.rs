//! Handlers of batches: deliveries that share a call, and workers that vanish in the middle of one.

use std::collections::BTreeMap;

use idem_testing::amqp::assert_idempotent_together;
use tokio::task::yield_now;

use super::*;

fn orders<const N: usize>(amounts: [i64; N]) -> Vec<Message> {
    let order = |(number, amount_cents)| {
        Message::json(&OrderPlaced {
            order_id: format!("o-{number}"),
            amount_cents,
        })
    };
    amounts.into_iter().enumerate().map(order).collect()
}

#[derive(Clone, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, i64>>>);

impl Bank {
    fn charges(&self) -> BTreeMap<String, i64> {
        self.0.lock().unwrap().clone()
    }
}

/// Nothing is charged for nothing.
#[idempotent(key = "order_id", batch = 8, lease = "10s")]
async fn charge_by_id(
    orders: Batch<OrderPlaced>,
    State(bank): State<Bank>,
) -> Result<Vec<i64>, Failed> {
    for (i, order) in orders.iter().enumerate() {
        if order.amount_cents == 0 {
            orders.reject(i, "nothing to pay");
        }
    }
    yield_now().await;
    let accepted = orders.accepted();
    let charged = accepted.map(|it| (it.order_id.clone(), it.amount_cents));
    bank.0.lock().unwrap().extend(charged);
    yield_now().await;
    Ok(orders.accepted().map(|it| it.amount_cents).collect())
}

fn charging() -> Harness<charge_by_id, Bank> {
    Setup::new(Bank::default).consume::<charge_by_id>("orders")
}

#[tokio::test(start_paused = true)]
async fn messages_that_share_a_call_are_each_settled_as_they_ended() {
    let harness = charging();
    let delivered = harness.deliver_together(&orders([100, 0, 300])).await;
    let settlements: Vec<_> = delivered.iter().map(Delivered::settlement).collect();
    let rejected = Settlement::DeadLetter(Reason::Rejected);
    assert_eq!(settlements, [Settlement::Ack, rejected, Settlement::Ack]);
    assert_eq!(delivered[0].output::<i64>(), 100);
    assert_eq!(delivered[2].output::<i64>(), 300);
}

#[tokio::test(start_paused = true)]
async fn each_crash_of_a_batch_is_healed_by_redeliveries() {
    use CrashPoint::{AfterClaim, AfterCompletion, BeforeClaim, BeforeCompletion, InHandler};
    // The point, and whether the batch has charged.
    let table = [
        (BeforeClaim, false),
        (AfterClaim, false),
        (InHandler(1), false),
        (InHandler(2), true),
        (BeforeCompletion, true),
        (AfterCompletion, true),
    ];
    for (point, has_charged) in table {
        for orders in [orders([1]), orders([1; 2]), orders([1; 5])] {
            let (harness, size) = (charging(), orders.len());
            harness.crash_together(point, &orders).await;
            let charged = if has_charged { size } else { 0 };
            assert_eq!(harness.state().charges().len(), charged, "{point}, {size}");
            for order in &orders {
                let again = harness.deliver_until_done(&order.redelivered()).await;
                assert_eq!(again.settlement(), Settlement::Ack, "{point}, {size}");
            }
            assert_eq!(harness.state().charges().len(), size, "{point}, {size}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_that_does_not_happen_is_told() {
    let (harness, orders) = (charging(), orders([1; 2]));
    let panic = panic_of(harness.crash_together(CrashPoint::InHandler(3), &orders)).await;
    let told = "the delivery ended as `executed` without coming as far as inside the handler, at wait 3: it did \
                not crash";
    assert_eq!(panic, told);
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_other_side_knows_the_work_passes_on_every_kind_of_queue() {
    let queues = [
        Queue::quorum("orders"),
        Queue::quorum("orders").max_waiting(0),
        Queue::existing("orders"),
    ];
    for queue in queues {
        let harness = Setup::new(Bank::default).consume::<charge_by_id>(queue);
        let charges = async |run: &Harness<charge_by_id, Bank>| run.state().charges();
        assert_idempotent_together(&harness, &orders([1; 5]), charges).await;
    }
}

#[cfg(feature = "sqlite")]
mod on_sqlite {
    use idem_core::sqlx::{self, SqliteConnection};
    use idem_testing::OnSqlite;

    use super::*;

    const SCHEMA: &str = "CREATE TABLE charges (order_id TEXT, cents INTEGER)";

    async fn insert(
        orders: &Batch<OrderPlaced>,
        db: &mut SqliteConnection,
    ) -> Result<(), sqlx::Error> {
        for order in orders {
            let insert = sqlx::query("INSERT INTO charges VALUES (?, ?)");
            let insert = insert.bind(&order.order_id).bind(order.amount_cents);
            insert.execute(&mut *db).await?;
        }
        Ok(())
    }

    #[idempotent(key = "order_id", batch = 8)]
    async fn charge_together(
        orders: Batch<OrderPlaced>,
        db: &mut SqliteConnection,
    ) -> Result<Vec<i64>, Failed> {
        insert(&orders, db).await?;
        Ok(orders.iter().map(|it| it.amount_cents).collect())
    }

    /// What is written down beside the transaction is not rolled back with it.
    #[idempotent(key = "order_id", batch = 8)]
    async fn charge_and_note(
        orders: Batch<OrderPlaced>,
        State(journal): State<Journal>,
        db: &mut SqliteConnection,
    ) -> Result<(), Failed> {
        insert(&orders, db).await?;
        for order in &orders {
            journal.write(&*order.order_id);
        }
        Ok(())
    }

    async fn charges<H, St>(run: &Harness<H, St, OnSqlite>) -> Vec<(String, i64)> {
        sqlx::query_as("SELECT order_id, cents FROM charges ORDER BY order_id")
            .fetch_all(&mut *run.database().await)
            .await
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_message_of_an_atomic_batch_has_its_own_output() {
        let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
        let harness = setup.consume::<charge_together>("orders");
        let delivered = harness.deliver_together(&orders([100, 200, 300])).await;
        let outputs = delivered.iter().map(Delivered::output::<i64>);
        assert_eq!(outputs.collect::<Vec<_>>(), [100, 200, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_atomic_batch_passes_at_every_point() {
        let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
        let harness = setup.consume::<charge_together>("orders");
        assert_idempotent_together(&harness, &orders([1; 5]), charges).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_atomic_batch_that_writes_beside_its_transaction_is_found_out() {
        let setup = Setup::new(Journal::default).sqlite(SCHEMA).await;
        let harness = setup.consume::<charge_and_note>("orders");
        let notes = async |run: &Harness<charge_and_note, Journal, OnSqlite>| {
            let mut notes = run.state().read();
            notes.sort();
            (notes, charges(run).await)
        };
        let orders = orders([1; 5]);
        let asserted = assert_idempotent_together(&harness, &orders, notes);
        let panic = Box::pin(panic_of(asserted)).await;
        let told = "crash after the handler, before the completion: the effect is another one";
        assert!(panic.contains(told), "{panic}");
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use idem_core::sqlx::{self, PgConnection, PgPool};
    use idem_servers::postgres;
    use idem_testing::OnPostgres;

    use super::*;

    const SCHEMA: &str = "CREATE TABLE charges (order_id text, cents bigint)";

    async fn insert(orders: &Batch<OrderPlaced>, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        let ids: Vec<_> = orders.iter().map(|it| &*it.order_id).collect();
        let cents: Vec<_> = orders.iter().map(|it| it.amount_cents).collect();
        let insert = "INSERT INTO charges SELECT * FROM unnest($1::text[], $2::bigint[])";
        let insert = sqlx::query(insert).bind(ids).bind(cents);
        insert.execute(db).await.map(drop)
    }

    #[idempotent(key = "order_id", batch = 8)]
    async fn charge_together(
        orders: Batch<OrderPlaced>,
        db: &mut PgConnection,
    ) -> Result<(), Failed> {
        Ok(insert(&orders, db).await?)
    }

    /// What goes by the pool is not rolled back with the transaction.
    #[idempotent(key = "order_id", batch = 8)]
    async fn charge_beside(
        orders: Batch<OrderPlaced>,
        State(pool): State<PgPool>,
        db: &mut PgConnection,
    ) -> Result<(), Failed> {
        sqlx::query("SELECT 1").execute(db).await?;
        Ok(insert(&orders, &mut *pool.acquire().await?).await?)
    }

    async fn setup() -> Setup<PgPool, OnPostgres> {
        let url = postgres::shared().unwrap().url();
        let setup = Setup::new(|| ()).postgres(&url, SCHEMA).await;
        setup.state(OnPostgres::pool)
    }

    async fn charges<H, St>(run: &Harness<H, St, OnPostgres>) -> Vec<(String, i64)> {
        sqlx::query_as("SELECT order_id, cents FROM charges ORDER BY order_id")
            .fetch_all(&mut *run.database().await)
            .await
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_atomic_batch_passes_at_every_point() {
        let harness = setup().await.consume::<charge_together>("orders");
        assert_idempotent_together(&harness, &orders([1; 5]), charges).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_atomic_batch_that_writes_beside_its_transaction_is_found_out() {
        let harness = setup().await.consume::<charge_beside>("orders");
        let orders = orders([1; 5]);
        let asserted = assert_idempotent_together(&harness, &orders, charges);
        let panic = Box::pin(panic_of(asserted)).await;
        let told = "crash after the handler, before the completion: the effect is doubled";
        assert!(panic.contains(told), "{panic}");
    }
}
