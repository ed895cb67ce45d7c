use super::*;

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing_written_and_nothing_locked() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    drop(open);
    shop.nothing_is_locked().await;
    assert_eq!(shop.charges().await, 0);
    assert_matches!(
        shop.store.claim(&request("o-1")).await,
        Ok(Claim::Held { .. })
    );
}

#[tokio::test]
async fn a_handler_cancelled_in_the_middle_of_a_statement_leaves_nothing_locked() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let slow = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000)
                INSERT INTO charges SELECT i FROM n";
    let working = tokio::spawn(async move { execute(lend(&mut open), slow).await });
    tokio::task::yield_now().await;
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    shop.nothing_is_locked().await;
    assert_eq!(shop.charges().await, 0);
}

#[tokio::test]
async fn a_handler_that_holds_the_write_lock_too_long_makes_others_wait_and_then_fail() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let waited = shop.store.claim(&request("o-2")).await;
    assert_matches!(waited, Err(StoreError::Unavailable(_)));
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
    acquire(&shop.store, "o-2").await;
}

#[tokio::test]
async fn what_a_handler_leaves_on_its_connection_is_not_lent_on() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let litter = "CREATE TEMP TABLE leftover (id)";
    execute(lend(&mut open), litter).await.unwrap();
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));

    let (lease, mut open) = shop.begin("o-2").await;
    let found = execute(lend(&mut open), "SELECT * FROM temp.leftover").await;
    assert!(found.is_err());
    let switch = "PRAGMA query_only = ON";
    execute(lend(&mut open), switch).await.unwrap();
    refusal(shop.commit(open, &lease).await);

    let (lease, mut open) = shop.begin("o-3").await;
    charge(lend(&mut open)).await;
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
}

/// Whoever got the connection next could commit by itself.
#[tokio::test]
async fn a_commit_hook_that_a_handler_has_set_is_not_there_for_the_next_one() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let mut handle = lend(&mut open).lock_handle().await.unwrap();
    handle.set_commit_hook(|| true);
    drop(handle);
    charge(lend(&mut open)).await;
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
    let (_, mut open) = shop.begin("o-2").await;
    charge(lend(&mut open)).await;
    assert!(execute(lend(&mut open), "COMMIT").await.is_err());
    assert_eq!(shop.charges().await, 1);
}

/// What a handler can only switch outside of a transaction, too. Closing the connection would be the other way.
#[tokio::test]
async fn a_connection_is_lent_again_and_switched_back() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let switch = "ROLLBACK; PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF; PRAGMA query_only = ON; BEGIN";
    execute(lend(&mut open), switch).await.unwrap();
    refusal(shop.commit(open, &lease).await);
    let (_, mut open) = shop.begin("o-2").await;
    for (question, expected) in [
        ("SELECT total_changes() > 0", 1),
        ("PRAGMA foreign_keys", 1),
        ("PRAGMA synchronous", 1),
        ("PRAGMA query_only", 0),
    ] {
        let found: i64 = sqlx::query_scalar(question)
            .fetch_one(lend(&mut open))
            .await
            .unwrap();
        assert_eq!(found, expected, "{question}");
    }
}

#[tokio::test]
async fn a_connection_that_has_moved_a_mark_is_lent_again() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let stream = Key::new("ledger.book", "ledger").unwrap();
    let claimed = shop.store.claim_stream(&stream, Owner::new(), MINUTE);
    let StreamClaim::Acquired { lease: reader, .. } = claimed.await.unwrap() else {
        panic!("nobody else reads");
    };
    let (_, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let finish = Finish::MoveMark {
        mark: MarkMove::new(&reader, 0, 1),
        outgoing: &[],
    };
    let ended = TransactionalStore::<Lent>::finish(&shop.store, open, finish).await;
    assert_eq!(ended.unwrap(), Finished::Committed);
    let (_, mut open) = shop.begin("o-2").await;
    let has_written: i64 = sqlx::query_scalar("SELECT total_changes() > 0")
        .fetch_one(lend(&mut open))
        .await
        .unwrap();
    assert_eq!(has_written, 1);
}

#[tokio::test]
async fn handlers_beyond_the_connections_wait_before_they_claim() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let waiting = request("o-2");
    let second = TransactionalStore::<Lent>::begin(&shop.store, &waiting);
    tokio::pin!(second);
    assert!(futures_util::poll!(second.as_mut()).is_pending());

    acquire(&shop.store, "o-2").await;
    charge(lend(&mut open)).await;
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
    assert!(matches!(second.await, Ok(Begun::Not(Claim::Held { .. }))));
}

#[tokio::test]
async fn who_waits_for_a_connection_may_claim_before_it_is_there() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let store = &shop.store;
    assert!(!TransactionalStore::<Lent>::is_busy(store));
    let (lease, mut open) = shop.begin("o-1").await;
    assert!(TransactionalStore::<Lent>::is_busy(store));

    let waiting = request("o-2");
    let claimed = TransactionalStore::<Lent>::claim_ahead(store, &waiting).await;
    let Ok(Begun::Acquired(second, mut opening)) = claimed else {
        panic!("the key is free");
    };
    assert!(futures_util::poll!(opening.as_mut()).is_pending());
    charge(lend(&mut open)).await;
    let ended = shop.commit(open, &lease).await;
    assert_eq!(ended.unwrap(), Finished::Committed);
    let mut open = opening.await.unwrap();
    charge(lend(&mut open)).await;
    let ended = shop.commit(open, &second).await;
    assert_eq!(ended.unwrap(), Finished::Committed);
    assert_eq!(shop.charges().await, 2);
    let completed = request("o-1");
    let claimed = TransactionalStore::<Lent>::claim_ahead(store, &completed).await;
    assert!(matches!(claimed, Ok(Begun::Not(Claim::Completed { .. }))));
}

#[tokio::test]
async fn a_completed_key_opens_no_transaction() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let lease = acquire(&shop.store, "o-1").await;
    complete(&shop.store, &lease).await;
    for _ in 0..3 {
        let begun = TransactionalStore::<Lent>::begin(&shop.store, &request("o-1")).await;
        assert!(matches!(begun, Ok(Begun::Not(Claim::Completed { .. }))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_handlers_at_once_each_commit_once() {
    let shop = Shop::with(|builder| builder.busy_timeout(Duration::from_secs(10))).await;
    let shop = Arc::new(shop);
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

#[tokio::test]
async fn a_lent_connection_is_as_durable_and_as_patient_as_the_store() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    for (pragma, expected) in [
        ("PRAGMA synchronous", 1),
        ("PRAGMA foreign_keys", 1),
        ("PRAGMA busy_timeout", 500),
    ] {
        let set: i64 = sqlx::query_scalar(pragma)
            .fetch_one(lend(&mut open))
            .await
            .unwrap();
        assert_eq!(set, expected, "{pragma}");
    }
}
