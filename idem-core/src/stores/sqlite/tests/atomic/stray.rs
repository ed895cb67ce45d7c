//! What a handler writes when its transaction is gone: by itself it would be committed at once.

use futures_util::poll;

use super::*;

/// As a time-out or a `select!` in the handler does it: the driver rolls back what it takes for its own, and that
/// is all there is.
async fn drop_a_nested_begin(open: &mut OpenTransaction) {
    // On a busy machine the answer may be there at once: that one is only rolled back itself.
    while poll!(Box::pin(lend(open).begin()).as_mut()).is_ready() {}
}

async fn is_refused(shop: &Shop, open: &mut OpenTransaction) {
    let stray = execute(lend(open), "INSERT INTO charges VALUES ('stray')").await;
    let error = stray.expect_err("nothing is written outside of the transaction");
    assert!(error.to_string().contains("constraint"), "{error}");
    assert_eq!(shop.charges().await, 0);
}

#[tokio::test]
async fn what_is_written_after_a_nested_transaction_that_was_dropped_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    drop_a_nested_begin(&mut open).await;
    is_refused(&shop, &mut open).await;
    refusal(shop.commit(open, &lease).await);
    assert_eq!(shop.charges().await, 0);
}

/// Also what it writes in a transaction of its own, and on a connection that was lent before.
#[tokio::test]
async fn nobody_commits_but_the_store() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, open) = shop.begin("o-1").await;
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
    for sql in [
        "COMMIT",
        "ROLLBACK; BEGIN; INSERT INTO charges VALUES ('own'); COMMIT",
    ] {
        let (lease, mut open) = shop.begin("o-2").await;
        charge(lend(&mut open)).await;
        assert!(execute(lend(&mut open), sql).await.is_err(), "{sql}");
        is_refused(&shop, &mut open).await;
        shop.rolls_back(open).await;
        let write = shop.store.release(&lease, &Release::failed("no")).await;
        assert_eq!(write.unwrap(), Write::Applied);
    }
    let (lease, mut open) = shop.begin("o-3").await;
    charge(lend(&mut open)).await;
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
    assert_eq!(shop.charges().await, 1);
}

/// The driver carries it out after the handler has gone, right before the store's own commit.
#[tokio::test]
async fn a_statement_that_was_abandoned_is_not_committed_with_the_stores_permission() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    drop_a_nested_begin(&mut open).await;
    // Keeps the connection's thread busy, so that the next one is still to come at the commit.
    let slow = "SELECT count(*) FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000)
                SELECT i FROM n)";
    let stray = "INSERT INTO charges VALUES ('stray')";
    for abandoned in [slow, stray] {
        let statement = poll!(Box::pin(execute(lend(&mut open), abandoned)).as_mut());
        assert!(statement.is_pending());
    }
    let error = refusal(shop.commit(open, &lease).await);
    assert!(error.contains("idem_handler"), "{error}");
    assert_eq!(shop.charges().await, 0);
    assert!(!is_completed(&shop.store, "o-1").await);
}
