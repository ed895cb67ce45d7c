//! Which connection is lent to whom, and in what state.

use std::task::Poll;

use super::*;

const LITTER: &str =
    "SET statement_timeout = 12345; SET search_path TO nowhere; SET ROLE idem_nobody;
    CREATE TEMP TABLE leftover (id text); LISTEN leftover; SELECT pg_advisory_lock(hashtext($$k$$));
    DECLARE leftover CURSOR WITH HOLD FOR SELECT 1";

/// What of the litter is still to be seen on a connection.
async fn found(connection: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT 'a setting' WHERE current_setting('statement_timeout') <> '0'
         UNION ALL SELECT 'a search path' WHERE current_setting('search_path') = 'nowhere'
         UNION ALL SELECT 'a role' WHERE current_user <> session_user
         UNION ALL SELECT 'a table' WHERE to_regclass('pg_temp.leftover') IS NOT NULL
         UNION ALL SELECT 'a channel' FROM pg_listening_channels()
         UNION ALL SELECT 'a cursor' FROM pg_cursors WHERE is_holdable
         UNION ALL SELECT 'a lock' FROM pg_locks
            WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    )
    .fetch_all(connection)
    .await
    .unwrap()
}

async fn litter(shop: &Shop, open: &mut OpenTransaction) {
    let role = format!("{}_nobody", shop.schema);
    let mut bystander = shop.bystander().await;
    execute(&mut bystander, format!("CREATE ROLE {role}"))
        .await
        .unwrap();
    let litter = LITTER.replace("idem_nobody", &role);
    // A temporary table cannot be created by a role without rights: the order is the reverse.
    let statements: Vec<_> = litter.split(';').rev().collect();
    execute(lend(open), statements.join(";")).await.unwrap();
}

#[tokio::test]
async fn what_a_handler_leaves_on_its_connection_is_not_lent_on() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let first = pid(lend(&mut open)).await;
    litter(&shop, &mut open).await;
    shop.commits(open, &lease).await;

    let (lease, mut open) = shop.begin("o-2").await;
    assert_eq!(found(lend(&mut open)).await, [""; 0]);
    let second = pid(lend(&mut open)).await;
    assert_eq!(first, second, "the connection is the same");
    shop.commits(open, &lease).await;
}

/// What the server does when this host has vanished must not depend on what was reset.
#[tokio::test]
async fn every_handlers_connection_has_keepalives() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    for id in ["o-1", "o-2"] {
        let (lease, mut open) = shop.begin(id).await;
        let told = "SELECT current_setting('tcp_keepalives_idle') || ' '
                    || current_setting('tcp_keepalives_interval') || ' '
                    || current_setting('tcp_keepalives_count') || ' '
                    || current_setting('tcp_user_timeout')";
        let told: String = sqlx::query_scalar(told)
            .fetch_one(lend(&mut open))
            .await
            .unwrap();
        assert_eq!(told, "10 5 3 25000", "{id}");
        shop.commits(open, &lease).await;
    }
}

#[tokio::test]
async fn what_a_handler_leaves_is_not_handed_on_to_whoever_waits() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let first = pid(lend(&mut open)).await;
    let mut next = Box::pin(shop.begin("o-2"));
    assert!(futures_util::poll!(next.as_mut()).is_pending());
    litter(&shop, &mut open).await;
    shop.commits(open, &lease).await;

    let (lease, mut open) = next.await;
    assert_eq!(found(lend(&mut open)).await, [""; 0]);
    assert_eq!(first, pid(lend(&mut open)).await);
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
    assert!(shop.is_completed("o-2").await);
    assert_eq!(shop.charges().await, 1);
}

#[tokio::test]
async fn a_handler_on_a_connection_that_was_handed_on_chooses_its_isolation_for_itself() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (mut lease, mut open) = shop.begin("o-1").await;
    for id in ["o-2", "o-3"] {
        let mut next = Box::pin(shop.begin(id));
        assert!(futures_util::poll!(next.as_mut()).is_pending());
        let level = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";
        execute(lend(&mut open), level).await.unwrap();
        charge(lend(&mut open)).await;
        shop.commits(open, &lease).await;
        (lease, open) = next.await;
    }
    let level: String = sqlx::query_scalar("SHOW transaction_isolation")
        .fetch_one(lend(&mut open))
        .await
        .unwrap();
    assert_eq!(level, "read committed");
}

#[tokio::test]
async fn a_connection_that_dies_when_it_was_handed_on_was_no_attempt_of_the_next() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let first = pid(lend(&mut open)).await;
    let mut next = Box::pin(shop.begin("o-2"));
    assert!(futures_util::poll!(next.as_mut()).is_pending());
    shop.commits(open, &lease).await;
    let (_, mut open) = next.await;
    let end = format!("SELECT pg_terminate_backend({first}, 10000)");
    execute(&mut shop.bystander().await, end).await.unwrap();
    let refused = sqlx::query("SELECT 1").execute(lend(&mut open)).await;
    refused.unwrap_err();
    assert!(!TransactionalStore::<Lent>::is_alive(&shop.store, &mut open).await);
    drop(open);
    let (_, mut open) = shop.begin("o-3").await;
    assert_ne!(first, pid(lend(&mut open)).await);
}

#[tokio::test]
async fn a_nested_transaction_left_open_is_none_of_the_next_handlers() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let mut next = Box::pin(shop.begin("o-2"));
    assert!(futures_util::poll!(next.as_mut()).is_pending());
    let mut nested = lend(&mut open).begin().await.unwrap();
    charge(&mut nested).await;
    std::mem::forget(nested);
    shop.commits(open, &lease).await;

    let (lease, mut open) = next.await;
    let mut nested = lend(&mut open).begin().await.unwrap();
    charge(&mut nested).await;
    nested.rollback().await.unwrap();
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
    assert_eq!(shop.charges().await, 2);
}

#[tokio::test]
async fn what_a_handler_that_failed_leaves_behind_is_not_lent_on() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let first = pid(lend(&mut open)).await;
    let lock = "SELECT pg_advisory_lock(17)";
    execute(lend(&mut open), lock).await.unwrap();
    shop.rolls_back(open, &lease).await;

    let (_, mut open) = shop.begin("o-2").await;
    assert_eq!(found(lend(&mut open)).await, [""; 0]);
    let second = pid(lend(&mut open)).await;
    assert_eq!(first, second, "the connection is the same");
}

#[tokio::test]
async fn a_connection_is_lent_again_after_a_commit_a_rollback_and_a_duplicate() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let first = pid(lend(&mut open)).await;
    shop.commits(open, &lease).await;
    let duplicate = begin(&shop.store, &request("o-1")).await;
    assert_matches!(duplicate, Ok(Begun::Not(Claim::Completed { .. })));
    let (lease, mut open) = shop.begin("o-2").await;
    assert_eq!(first, pid(lend(&mut open)).await);
    shop.rolls_back(open, &lease).await;
    let (_, mut open) = shop.begin("o-3").await;
    assert_eq!(first, pid(lend(&mut open)).await);
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing_and_its_connection_is_closed() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (_, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let first = pid(lend(&mut open)).await;
    drop(open);
    shop.nothing_is_locked().await;
    assert_eq!(shop.charges().await, 0);
    let (_, mut open) = shop.begin("o-2").await;
    assert_ne!(first, pid(lend(&mut open)).await);
}

#[tokio::test]
async fn a_handler_cancelled_in_the_middle_of_a_statement_leaves_nothing() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (_, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let first = pid(lend(&mut open)).await;
    let slow = "INSERT INTO charges SELECT 'slow' FROM generate_series(1, 300000)";
    let mut working = Box::pin(async move { execute(lend(&mut open), slow).await });
    assert!(futures_util::poll!(working.as_mut()).is_pending());
    drop(working);
    shop.nothing_is_locked().await;
    assert_eq!(shop.charges().await, 0);
    let (_, mut open) = shop.begin("o-2").await;
    assert_ne!(first, pid(lend(&mut open)).await);
}

#[tokio::test]
async fn a_nested_transaction_left_open_is_committed_with_the_rest() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let mut nested = lend(&mut open).begin().await.unwrap();
    charge(&mut nested).await;
    std::mem::forget(nested);
    shop.commits(open, &lease).await;
    assert_eq!(shop.charges().await, 1);
    let (lease, mut open) = shop.begin("o-2").await;
    let mut nested = lend(&mut open).begin().await.unwrap();
    charge(&mut nested).await;
    nested.commit().await.unwrap();
    shop.commits(open, &lease).await;
    assert_eq!(shop.charges().await, 2);
}

#[tokio::test]
async fn handlers_beyond_the_connections_wait_before_they_claim() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let waiting = request("o-2");
    let second = begin(&shop.store, &waiting);
    tokio::pin!(second);
    assert!(futures_util::poll!(second.as_mut()).is_pending());

    let claim = shop.store.claim(&request("o-2")).await;
    assert!(matches!(claim, Ok(Claim::Acquired(_))), "{claim:?}");
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
    assert!(matches!(second.await, Ok(Begun::Not(Claim::Held { .. }))));
}

#[tokio::test]
async fn a_duplicate_does_not_wait_for_an_open_transaction() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    // Warm connections: what is measured is the answer.
    let (other, warm) = shop.begin("o-2").await;
    shop.commits(warm, &other).await;
    for _ in 0..5 {
        let asked = std::time::Instant::now();
        let duplicate = begin(&shop.store, &request("o-1")).await;
        assert!(matches!(duplicate, Ok(Begun::Not(Claim::Held { .. }))));
        assert!(
            asked.elapsed() < Duration::from_secs(10),
            "{:?}",
            asked.elapsed()
        );
    }
    shop.commits(open, &lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_handlers_at_once_each_commit_once() {
    let shop = Arc::new(Shop::with(|builder| builder.connections(4)).await);
    let handlers = (0..50).map(|id| {
        let shop = Arc::clone(&shop);
        tokio::spawn(async move {
            let (lease, mut open) = shop.begin(&id.to_string()).await;
            charge(lend(&mut open)).await;
            shop.commit(open, &lease).await.unwrap()
        })
    });
    for handler in futures_util::future::join_all(handlers).await {
        assert_eq!(handler.unwrap(), Finished::Committed);
    }
    assert_eq!(shop.charges().await, 50);
}

/// Polls a future this many times, and drops it unless it has ended.
async fn cancelled_after<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Whether a transaction that begins now is one of now.
async fn begins_anew(shop: &Shop, bystander: &mut PgConnection, id: &str) -> PooledTransaction {
    let now = "SELECT clock_timestamp()::text";
    let before: String = sqlx::query_scalar(now).fetch_one(bystander).await.unwrap();
    let request = request(id);
    let begun = shop.store.begin_open::<PooledTransaction>(&request).await;
    let Ok(Begun::Acquired(_, mut open)) = begun else {
        panic!("{id}: the key is new")
    };
    let is_new: bool = sqlx::query_scalar("SELECT now() > $1::timestamptz")
        .bind(before)
        .fetch_one(open.connection())
        .await
        .unwrap();
    assert!(is_new, "{id}");
    open
}

/// A pool that lends a connection on which `BEGIN` was cancelled lends an open transaction.
#[tokio::test]
async fn a_beginning_cancelled_at_any_point_never_lends_a_stale_transaction() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let mut bystander = shop.bystander().await;
    for is_connected in [true, false] {
        let mut polls = 0;
        loop {
            let mine = request(format!("cancelled {is_connected} {polls}"));
            let begun = cancelled_after(polls, begin(&shop.store, &mine)).await;
            let has_ended = begun.is_some();
            drop(begun);
            let next = format!("next {is_connected} {polls}");
            let open = begins_anew(&shop, &mut bystander, &next).await;
            if is_connected {
                open.give_back();
            }
            if has_ended {
                break;
            }
            polls += 1;
        }
        // At least: before it was polled, waiting for a connection, and waiting for the server.
        assert!(polls >= 2, "{polls}");
    }
}

/// The server refuses a prepared statement for ever whose answer has other columns by now.
#[tokio::test]
async fn a_table_that_was_altered_fails_a_handler_once_only() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let look = async |open: &mut OpenTransaction| {
        let rows = sqlx::query("SELECT * FROM charges");
        rows.fetch_all(lend(open)).await
    };
    let (lease, mut open) = shop.begin("o-1").await;
    look(&mut open).await.unwrap();
    shop.commits(open, &lease).await;
    let alter = "ALTER TABLE charges ADD COLUMN note text";
    execute(&mut shop.bystander().await, alter).await.unwrap();

    let (lease, mut open) = shop.begin("o-2").await;
    look(&mut open).await.unwrap_err();
    shop.rolls_back(open, &lease).await;
    let (lease, mut open) = shop.begin("o-2").await;
    look(&mut open).await.unwrap();
    shop.commits(open, &lease).await;
}

#[tokio::test]
async fn a_handler_that_deallocates_what_is_prepared_fails_the_next_one_once_only() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    pid(lend(&mut open)).await;
    execute(lend(&mut open), "DEALLOCATE ALL").await.unwrap();
    shop.commits(open, &lease).await;

    let look = "SELECT pg_backend_pid()";
    let (lease, mut open) = shop.begin("o-2").await;
    let refused = sqlx::query(look).execute(lend(&mut open)).await;
    refused.unwrap_err();
    shop.rolls_back(open, &lease).await;
    let (lease, mut open) = shop.begin("o-2").await;
    pid(lend(&mut open)).await;
    shop.commits(open, &lease).await;
}
