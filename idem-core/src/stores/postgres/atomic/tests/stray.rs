//! Statements that a handler sends when its transaction is gone: by themselves they would be committed at once.

use super::*;

/// The server's word for a write that it refuses, because the session or its transaction only reads.
const READ_ONLY: &str = "25006";

/// As a time-out or a `select!` in the handler does it: the driver then rolls back what it takes for its own, and
/// that is all there is.
async fn drop_a_nested_begin(open: &mut OpenTransaction) {
    // On a busy machine the answer may be there at once: that one is only rolled back itself.
    while futures_util::poll!(Box::pin(lend(open).begin()).as_mut()).is_ready() {}
}

/// The same by an error.
async fn fail_to_begin_a_nested_one(open: &mut OpenTransaction) {
    execute(lend(open), "INSERT INTO nowhere VALUES (1)")
        .await
        .unwrap_err();
    assert!(lend(open).begin().await.is_err());
}

async fn is_refused(open: &mut OpenTransaction) {
    let stray = execute(lend(open), "INSERT INTO charges VALUES ('stray')").await;
    let error = stray.expect_err("nothing is written outside of the transaction");
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    assert_eq!(code.as_deref(), Some(READ_ONLY), "{error}");
}

#[tokio::test]
async fn what_is_written_after_a_nested_transaction_that_was_dropped_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    drop_a_nested_begin(&mut open).await;
    is_refused(&mut open).await;
    let refused = refusal(shop.commit(open, &lease).await);
    assert!(refused.contains("ended"), "{refused}");
    assert_eq!(shop.charges().await, 0);
}

#[tokio::test]
async fn what_is_written_after_a_nested_transaction_that_could_not_begin_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    fail_to_begin_a_nested_one(&mut open).await;
    is_refused(&mut open).await;
    shop.rolls_back(open, &lease).await;
    assert_eq!(shop.charges().await, 0);
}

/// Whether a connection is new, was handed on, or was lent before.
#[tokio::test]
async fn nothing_is_written_outside_of_the_transaction_on_any_connection() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, open) = shop.begin("o-1").await;
    shop.commits(open, &lease).await;
    let (lease, open) = shop.begin("o-2").await;
    let mut next = Box::pin(shop.begin("o-3"));
    assert!(futures_util::poll!(next.as_mut()).is_pending());
    shop.commits(open, &lease).await;
    let (lease, open) = next.await;
    shop.rolls_back(open, &lease).await;
    let (_, mut open) = shop.begin("o-4").await;
    execute(lend(&mut open), "RESET ALL; ROLLBACK")
        .await
        .unwrap();
    is_refused(&mut open).await;
    assert_eq!(shop.charges().await, 0);
}

#[tokio::test]
async fn a_handler_that_has_failed_for_a_stray_write_has_failed_and_not_its_session() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    drop_a_nested_begin(&mut open).await;
    is_refused(&mut open).await;
    let alive = TransactionalStore::<Lent>::is_alive(&shop.store, &mut open);
    assert!(alive.await);
    shop.rolls_back(open, &lease).await;

    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
    assert_eq!(shop.charges().await, 1);
}

/// The driver has lost count of what is open on it.
#[tokio::test]
async fn a_connection_whose_transaction_was_ended_is_not_lent_again() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let first = pid(lend(&mut open)).await;
    drop_a_nested_begin(&mut open).await;
    let alive = TransactionalStore::<Lent>::is_alive(&shop.store, &mut open);
    assert!(alive.await);
    shop.rolls_back(open, &lease).await;
    let (_, mut open) = shop.begin("o-2").await;
    assert_ne!(pid(lend(&mut open)).await, first);
}

/// The isolation level is the handler's to choose, and so is to write nothing.
#[tokio::test]
async fn a_handler_still_chooses_how_its_transaction_is_isolated() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    let level = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    execute(lend(&mut open), level).await.unwrap();
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
    assert_eq!(shop.charges().await, 1);
}
