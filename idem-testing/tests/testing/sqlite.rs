//! Atomic handlers, on SQLite.

use std::time::Duration;

use idem_core::{
    Attempt, Batch, Key, SqliteStore,
    executor::ExecutionKind as Kind,
    sqlx::{self, SqliteConnection},
    store::{Finish, MarkMove, Open, Owner, StreamClaim, StreamStore as _, TransactionalStore},
};
use idem_testing::{
    Call, CrashPoint, FaultyStore, OnSqlite, assert_idempotent, assert_idempotent_together,
};
use tokio::time::{Instant, sleep};

use super::*;

const SCHEMA: &str = "CREATE TABLE charges (order_id TEXT, line INTEGER)";

#[idempotent(key = "order_id", lease = "10s")]
async fn charge_atomically(
    order: OrderPlaced,
    db: &mut SqliteConnection,
    attempt: Attempt,
) -> Result<u32, Failed> {
    sqlx::query("INSERT INTO charges VALUES (?, ?)")
        .bind(order.order_id)
        .bind(order.line)
        .execute(db)
        .await?;
    Ok(attempt.number())
}

type Shop = Harness<charge_atomically, (), OnSqlite>;

async fn shop() -> Shop {
    let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
    setup.handler::<charge_atomically>()
}

async fn charges<H, St>(run: &Harness<H, St, OnSqlite>) -> Vec<(String, i64)> {
    sqlx::query_as("SELECT order_id, line FROM charges")
        .fetch_all(&mut *run.database().await)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_worker_that_vanishes_are_rolled_back() {
    let (shop, began) = (shop().await, Instant::now());
    shop.crash(CrashPoint::BeforeCompletion, &order()).await;
    assert!(charges(&shop).await.is_empty());
    let again = shop.deliver_until_done(&order().redelivered()).await;
    assert_eq!((again.kind(), again.attempt()), (Kind::Executed, Some(2)));
    assert_eq!(charges(&shop).await, [("o-17".to_owned(), 1)]);
    let waited = began.elapsed();
    assert!(
        waited >= Duration::from_secs(9) && waited <= Duration::from_secs(11),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_lost_is_not_run_again() {
    let shop = shop().await;
    shop.store().lose_next_answer(Call::Complete);
    let ended = shop.deliver(&order()).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Executed, Some(1)));
    assert_eq!(charges(&shop).await.len(), 1);
}

/// A transaction that moves the mark of a stream meets what one that completes would.
#[tokio::test]
async fn a_mark_whose_commit_is_lost_or_not_answered_is_told_by_its_store() {
    let directory = std::env::temp_dir().join(format!("idem_marks_{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let behind = SqliteStore::connect(directory.join("idem.db"));
    let behind = behind.await.unwrap();
    let store = FaultyStore::new(behind.clone());
    let stream = Key::new("ledger", "postings").unwrap();
    let claim = behind.claim_stream(&stream, Owner::new(), Duration::from_mins(1));
    let Ok(StreamClaim::Acquired { lease, .. }) = claim.await else {
        panic!("nobody has claimed it");
    };
    let finish = async |from| {
        let open = TransactionalStore::<SqliteConnection>::open(&store, Open::Batch);
        let moving = Finish::MoveMark {
            mark: MarkMove::new(&lease, from, from + 1),
            outgoing: &[],
        };
        let open = open.await.unwrap();
        let finished = TransactionalStore::<SqliteConnection>::finish(&store, open, moving).await;
        let seen = behind.look_at_stream(&stream).await.unwrap();
        (finished.is_ok(), seen.and_then(|it| it.mark))
    };
    store.fail_next(Call::Complete);
    assert_eq!(finish(0).await, (false, None));
    store.lose_next_answer(Call::Complete);
    assert_eq!(finish(0).await, (false, Some(1)));
    assert_eq!(finish(1).await, (true, Some(2)));
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_atomic_handler_passes_at_every_point() {
    assert_idempotent(&shop().await, &order(), charges).await;
}

/// Commits its charge by itself.
#[idempotent(key = "order_id")]
async fn commit_early(order: OrderPlaced, db: &mut SqliteConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO charges VALUES (?, ?)")
        .bind(order.order_id)
        .bind(order.line)
        .execute(&mut *db)
        .await?;
    sqlx::raw_sql("COMMIT").execute(db).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_atomic_handler_that_commits_by_itself_is_refused() {
    let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
    let harness = setup.handler::<commit_early>();
    let ended = harness.deliver(&order()).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Failed, Some(1)));
    assert!(charges(&harness).await.is_empty());
}

#[idempotent(key = "order_id")]
async fn wait_first(order: OrderPlaced, db: &mut SqliteConnection) -> Result<(), Failed> {
    sleep(Duration::from_mins(10)).await;
    sqlx::query("INSERT INTO charges VALUES (?, ?)")
        .bind(order.order_id)
        .bind(order.line)
        .execute(db)
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_waits_on_the_paused_clock_keeps_its_lease() {
    let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
    let (harness, began) = (setup.handler::<wait_first>(), Instant::now());
    let ended = harness.deliver(&order()).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Executed, Some(1)));
    // On a busy machine SQLite may take long, and the clock goes on.
    assert!(began.elapsed() >= Duration::from_mins(10));
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_is_none_is_told() {
    let panic = panic_of(Setup::new(|| ()).sqlite("CREATE TABEL")).await;
    assert!(
        panic.starts_with("SQLite does not take the schema"),
        "{panic}"
    );
}

/// Line 0 is no line; with line 99 nobody is charged.
#[idempotent(key = "order_id", lease = "10s", batch = 8)]
async fn charge_together(
    orders: Batch<OrderPlaced>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    for (i, order) in orders.iter().enumerate() {
        if order.line == 0 {
            orders.reject(i, "no line");
        }
    }
    for order in orders.accepted() {
        sqlx::query("INSERT INTO charges VALUES (?, ?)")
            .bind(&order.order_id)
            .bind(order.line)
            .execute(&mut *db)
            .await?;
    }
    if orders.accepted().any(|order| order.line == 99) {
        return Err(Failed::retry("the till is jammed"));
    }
    Ok(())
}

fn orders<const N: usize>(lines: [u32; N]) -> Vec<Message> {
    let order = |line| {
        Message::json(&OrderPlaced {
            order_id: format!("o-{line}"),
            line,
        })
    };
    lines.into_iter().map(order).collect()
}

async fn lines<H>(run: &Harness<H, (), OnSqlite>) -> Vec<i64> {
    let mut lines: Vec<_> = charges(run).await.into_iter().map(|it| it.1).collect();
    lines.sort_unstable();
    lines
}

#[tokio::test(start_paused = true)]
async fn a_batch_commits_what_it_has_written_and_who_fails_in_it_takes_nothing_from_the_others() {
    let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
    let harness = setup.handler::<charge_together>();
    let ended = harness.deliver_together(&orders([1, 0, 3, 99, 5])).await;
    let kinds: Vec<_> = ended.iter().map(idem_core::Execution::kind).collect();
    assert_eq!(
        kinds,
        [
            Kind::Executed,
            Kind::Rejected,
            Kind::Executed,
            Kind::Failed,
            Kind::Executed
        ]
    );
    assert_eq!(lines(&harness).await, [1, 3, 5]);
    for copy in orders([1, 3, 5]) {
        assert_eq!(harness.deliver(&copy).await.kind(), Kind::Duplicate);
    }
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_batch_whose_worker_vanishes_are_rolled_back() {
    use CrashPoint::{AfterClaim, AfterCompletion, BeforeClaim, BeforeCompletion};
    // A handler need not wait for SQLite, so it may not be caught in the middle.
    for point in [BeforeClaim, AfterClaim, BeforeCompletion, AfterCompletion] {
        for orders in [orders([1]), orders([1, 2]), orders([1, 2, 3, 4, 5])] {
            let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
            let (harness, size) = (setup.handler::<charge_together>(), orders.len());
            harness.crash_together(point, &orders).await;
            let is_done = point == AfterCompletion;
            let charged = if is_done { size } else { 0 };
            assert_eq!(charges(&harness).await.len(), charged, "{point}, {size}");
            for order in &orders {
                let again = harness.deliver_until_done(&order.redelivered()).await;
                let expected = if is_done {
                    Kind::Duplicate
                } else {
                    Kind::Executed
                };
                assert_eq!(again.kind(), expected, "{point}, {size}");
            }
            assert_eq!(lines(&harness).await, [1, 2, 3, 4, 5][..size], "{point}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_atomic_batch_passes_at_every_point() {
    let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
    let harness = setup.handler::<charge_together>();
    assert_idempotent_together(&harness, &orders([1, 2, 3, 4, 5]), lines).await;
}

/// What is written down beside the transaction is not rolled back with it.
#[idempotent(key = "order_id", batch = 8)]
async fn charge_and_note(
    orders: Batch<OrderPlaced>,
    State(journal): State<Journal>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    sqlx::query("SELECT 1").execute(db).await?;
    for order in &orders {
        journal.write(&*order.order_id);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_atomic_batch_that_writes_beside_its_transaction_is_found_out() {
    let setup = Setup::new(Journal::default).sqlite(SCHEMA).await;
    let harness = setup.handler::<charge_and_note>();
    let notes = async |run: &Harness<charge_and_note, Journal, OnSqlite>| {
        let mut notes = run.state().read();
        notes.sort();
        notes
    };
    let orders = orders([1, 2, 3]);
    let panic = panic_of(assert_idempotent_together(&harness, &orders, notes)).await;
    let told = "crash after the handler, before the completion: the effect is doubled";
    assert!(panic.contains(told), "{panic}");
}
