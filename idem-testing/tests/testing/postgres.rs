//! Atomic, grouped and recorded handlers, on a real PostgreSQL.

use std::time::Duration;

use idem_core::{
    Attempt, Batch, Execution,
    executor::ExecutionKind as Kind,
    sqlx::{self, PgConnection},
};
use idem_servers::postgres;
use idem_testing::{Call, CrashPoint, OnPostgres, assert_idempotent, assert_idempotent_together};
use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

use super::*;

const SCHEMA: &str = "CREATE TABLE charges (
    order_id text CONSTRAINT charges_order UNIQUE, line int, transaction xid8 DEFAULT pg_current_xact_id()
)";

async fn insert(order: OrderPlaced, db: &mut PgConnection) -> Result<(), sqlx::Error> {
    let statement = sqlx::query("INSERT INTO charges (order_id, line) VALUES ($1, $2)")
        .bind(order.order_id)
        .bind(i32::try_from(order.line).unwrap());
    statement.execute(db).await.map(drop)
}

#[idempotent(key = "order_id", lease = "10s")]
async fn charge_atomically(
    order: OrderPlaced,
    db: &mut PgConnection,
    attempt: Attempt,
) -> Result<u32, Failed> {
    insert(order, db).await?;
    Ok(attempt.number())
}

#[idempotent(key = "order_id", group = 8)]
async fn charge_in_a_group(order: OrderPlaced, db: &mut PgConnection) -> Result<(), Failed> {
    if order.line == 0 {
        return Err(Failed::rejected("no such line"));
    }
    Ok(insert(order, db).await?)
}

#[idempotent(key = "order_id", recorded_by = "charges_order")]
async fn charge_recorded(order: OrderPlaced, db: &mut PgConnection) -> Result<(), Failed> {
    Ok(insert(order, db).await?)
}

async fn setup() -> Setup<(), OnPostgres> {
    let url = postgres::shared().unwrap().url();
    Setup::new(|| ()).postgres(&url, SCHEMA).await
}

async fn charges<H>(run: &Harness<H, (), OnPostgres>) -> Vec<(String, i32)> {
    sqlx::query_as("SELECT order_id, line FROM charges ORDER BY order_id")
        .fetch_all(&mut *run.database().await)
        .await
        .unwrap()
}

async fn transactions<H>(run: &Harness<H, (), OnPostgres>) -> i64 {
    sqlx::query_scalar("SELECT count(DISTINCT transaction) FROM charges")
        .fetch_one(&mut *run.database().await)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_worker_that_vanishes_are_rolled_back() {
    let shop = setup().await.handler::<charge_atomically>();
    shop.crash(CrashPoint::BeforeCompletion, &order()).await;
    assert!(charges(&shop).await.is_empty());
    let again = shop.deliver_until_done(&order().redelivered()).await;
    assert_eq!((again.kind(), again.attempt()), (Kind::Executed, Some(2)));
    assert_eq!(charges(&shop).await, [("o-17".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_lost_is_not_run_again() {
    let shop = setup().await.handler::<charge_atomically>();
    shop.store().lose_next_answer(Call::Complete);
    let ended = shop.deliver(&order()).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Executed, Some(1)));
    assert_eq!(charges(&shop).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_atomic_handler_passes_at_every_point() {
    let shop = setup().await.handler::<charge_atomically>();
    assert_idempotent(&shop, &order(), charges).await;
}

#[tokio::test(start_paused = true)]
async fn a_grouped_handler_passes_at_every_point() {
    let shop = setup().await.handler::<charge_in_a_group>();
    assert_idempotent(&shop, &order(), charges).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_its_own_row_records_passes_at_every_point() {
    let shop = setup().await.handler::<charge_recorded>();
    assert_idempotent(&shop, &order(), charges).await;
}

fn orders(lines: impl IntoIterator<Item = u32>) -> Vec<Message> {
    let order = |(number, line)| {
        Message::json(&OrderPlaced {
            order_id: format!("o-{number}"),
            line,
        })
    };
    lines.into_iter().enumerate().map(order).collect()
}

#[idempotent(key = "order_id", lease = "10s", batch = 8)]
async fn charge_together(orders: Batch<OrderPlaced>, db: &mut PgConnection) -> Result<(), Failed> {
    let ids: Vec<_> = orders.iter().map(|order| &*order.order_id).collect();
    sqlx::query("INSERT INTO charges (order_id) SELECT * FROM unnest($1::text[])")
        .bind(ids)
        .execute(db)
        .await?;
    // The server may have answered before anybody had to wait.
    yield_now().await;
    Ok(())
}

async fn count<H>(run: &Harness<H, (), OnPostgres>) -> usize {
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM charges")
        .fetch_one(&mut *run.database().await)
        .await
        .unwrap();
    count.try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_batch_whose_worker_vanishes_are_rolled_back() {
    use CrashPoint::{AfterClaim, AfterCompletion, BeforeClaim, BeforeCompletion, InHandler};
    let points = [
        BeforeClaim,
        AfterClaim,
        InHandler(1),
        BeforeCompletion,
        AfterCompletion,
    ];
    for point in points {
        for size in [1, 2, 5] {
            let (shop, orders) = (setup().await.handler::<charge_together>(), orders(1..=size));
            shop.crash_together(point, &orders).await;
            let is_done = point == AfterCompletion;
            let charged = if is_done { orders.len() } else { 0 };
            assert_eq!(count(&shop).await, charged, "{point}, {size}");
            for order in &orders {
                let again = shop.deliver_until_done(&order.redelivered()).await;
                let expected = if is_done {
                    Kind::Duplicate
                } else {
                    Kind::Executed
                };
                assert_eq!(again.kind(), expected, "{point}, {size}");
            }
            assert_eq!(count(&shop).await, orders.len(), "{point}, {size}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_atomic_batch_passes_at_every_point() {
    let shop = setup().await.handler::<charge_together>();
    assert_idempotent_together(&shop, &orders([1; 5]), count).await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_delivered_together_share_a_transaction() {
    let shop = setup().await.handler::<charge_in_a_group>();
    let ended = shop.deliver_together(&orders([1; 6])).await;
    assert!(ended.iter().all(|it| it.kind() == Kind::Executed));
    assert_eq!(charges(&shop).await.len(), 6);
    let transactions = transactions(&shop).await;
    assert!(transactions < 6, "each in one of its own");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_rejected_leaves_the_others_of_its_group_alone() {
    let shop = setup().await.handler::<charge_in_a_group>();
    let ended = shop.deliver_together(&orders([1, 0, 1, 1])).await;
    let kinds: Vec<_> = ended.iter().map(Execution::kind).collect();
    let expected = [
        Kind::Executed,
        Kind::Rejected,
        Kind::Executed,
        Kind::Executed,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(charges(&shop).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_delivered_alone_meets_its_faults_alone() {
    let shop = setup().await.handler::<charge_in_a_group>();
    shop.store().lose_next_answer(Call::Complete);
    let ended = shop.deliver(&order()).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Executed, Some(1)));
    assert_eq!(charges(&shop).await.len(), 1);
}

#[idempotent(key = "order_id")]
async fn wait_first(order: OrderPlaced, db: &mut PgConnection) -> Result<(), Failed> {
    sleep(Duration::from_mins(5)).await;
    Ok(insert(order, db).await?)
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_waits_on_the_paused_clock_keeps_its_lease() {
    let (shop, began) = (setup().await.handler::<wait_first>(), Instant::now());
    let ended = shop.deliver(&order()).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Executed, Some(1)));
    assert!(began.elapsed() >= Duration::from_mins(5));
}

#[tokio::test(start_paused = true)]
async fn what_a_harness_has_made_is_gone_with_it() {
    let shop = setup().await.handler::<charge_atomically>();
    let mut database = shop.database().await;
    let schema: String = sqlx::query_scalar("SELECT current_schema()")
        .fetch_one(&mut *database)
        .await
        .unwrap();
    drop(shop);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_namespace WHERE nspname = $1")
        .bind(schema)
        .fetch_one(&mut *database)
        .await
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test(start_paused = true)]
async fn statements_that_are_none_are_told() {
    let url = postgres::shared().unwrap().url();
    let panic = panic_of(Setup::new(|| ()).postgres(&url, "CREATE TABEL")).await;
    assert!(
        panic.starts_with("PostgreSQL does not take the statements"),
        "{panic}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_there_is_told() {
    let nobody = "postgres://127.0.0.1:1/none";
    let panic = panic_of(Setup::new(|| ()).postgres(nobody, SCHEMA)).await;
    assert!(
        panic.starts_with("PostgreSQL cannot be reached: "),
        "{panic}"
    );
}
