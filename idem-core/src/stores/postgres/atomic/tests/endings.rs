//! What becomes of a transaction, whatever its handler did.

use super::*;
use crate::handler::Outbox;

#[tokio::test]
async fn a_handler_that_ends_the_transaction_by_itself_and_fails_has_failed_by_itself() {
    for own_end in ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN", "COMMIT; BEGIN"] {
        let shop = Shop::with(|builder| builder.connections(1)).await;
        let (lease, mut open) = shop.begin("o-1").await;
        execute(lend(&mut open), own_end).await.unwrap();
        let is_alive = TransactionalStore::<Lent>::is_alive(&shop.store, &mut open);
        assert!(is_alive.await, "{own_end}");
        shop.rolls_back(open, &lease).await;
        let (lease, mut open) = shop.begin("o-1").await;
        charge(lend(&mut open)).await;
        shop.commits(open, &lease).await;
        assert_eq!(shop.charges().await, 1, "{own_end}");
    }
}

#[tokio::test]
async fn a_handler_that_ends_the_transaction_by_itself_is_refused() {
    for own_end in [
        "COMMIT",
        "ROLLBACK",
        "COMMIT AND CHAIN",
        "ROLLBACK; BEGIN",
        "COMMIT; BEGIN READ WRITE; INSERT INTO charges VALUES ('later')",
        "COMMIT; BEGIN READ WRITE; INSERT INTO charges VALUES ('outside'); COMMIT",
    ] {
        // One connection, so that it is the one that is lent again.
        let shop = Shop::with(|builder| builder.connections(1)).await;
        let (lease, mut open) = shop.begin("o-1").await;
        execute(lend(&mut open), own_end).await.unwrap();
        let error = refusal(shop.commit(open, &lease).await);
        assert!(error.contains("by itself"), "{own_end}: {error}");
        shop.nothing_is_locked().await;

        let released = shop.store.release(&lease, &Release::failed("no")).await;
        assert_eq!(released.unwrap(), Write::Applied, "{own_end}");
        let before = shop.charges().await;
        let (lease, mut open) = shop.begin("o-1").await;
        charge(lend(&mut open)).await;
        shop.commits(open, &lease).await;
        assert_eq!(shop.charges().await, before + 1, "{own_end}");
    }
}

#[tokio::test]
async fn a_handler_that_swallows_an_error_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let wrong = execute(lend(&mut open), "INSERT INTO nowhere VALUES (1)").await;
    assert!(wrong.is_err());
    let error = refusal(shop.commit(open, &lease).await);
    assert!(error.contains("went on after an error"), "{error}");
    assert_eq!(shop.charges().await, 0);
    assert!(!shop.is_completed("o-1").await);
}

#[tokio::test]
async fn an_error_inside_a_savepoint_costs_that_savepoint_only() {
    let shop = Shop::open().await;
    let request = request("o-1");
    let begun = TransactionalStore::<PgTransaction<'static>>::begin(&shop.store, &request);
    let Begun::Acquired(lease, mut open) = begun.await.unwrap() else {
        panic!("the key is free")
    };
    let lent: &mut PgTransaction<'static> = PostgresStore::lend(&mut open);
    charge(lent).await;
    let mut undone = lent.begin().await.unwrap();
    charge(&mut undone).await;
    let wrong = execute(&mut undone, "INSERT INTO nowhere VALUES (1)").await;
    assert!(wrong.is_err());
    drop(undone);
    let mut kept = lent.begin().await.unwrap();
    charge(&mut kept).await;
    kept.commit().await.unwrap();
    shop.commits(open, &lease).await;
    assert_eq!(shop.charges().await, 2);
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_is_refused() {
    for (broken, constraint) in [
        (
            "INSERT INTO children VALUES ('nobody')",
            "children_parent_fkey",
        ),
        (
            "INSERT INTO children (name) VALUES ('twin'), ('twin')",
            "children_name_key",
        ),
    ] {
        let shop = Shop::open().await;
        let (lease, mut open) = shop.begin("o-1").await;
        charge(lend(&mut open)).await;
        execute(lend(&mut open), broken).await.unwrap();
        let error = refusal(shop.commit(open, &lease).await);
        assert!(error.contains(constraint), "{error}");
        assert_eq!(shop.charges().await, 0);
        assert!(!shop.is_completed("o-1").await);
        shop.nothing_is_locked().await;
    }
}

#[tokio::test]
async fn a_handler_may_not_keep_the_store_from_writing() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    execute(lend(&mut open), "SET TRANSACTION READ ONLY")
        .await
        .unwrap();
    let error = refusal(shop.commit(open, &lease).await);
    assert!(error.contains("read-only"), "{error}");
}

#[tokio::test]
async fn a_handler_may_choose_its_role_and_its_search_path() {
    let shop = Shop::open().await;
    let role = unique();
    let create = format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT INSERT ON {schema}.charges TO {role}",
        schema = shop.schema
    );
    execute(&mut shop.bystander().await, create).await.unwrap();
    let (lease, mut open) = shop.begin("o-1").await;
    let as_tenant = format!("SET LOCAL ROLE {role}");
    execute(lend(&mut open), as_tenant).await.unwrap();
    charge(lend(&mut open)).await;
    execute(lend(&mut open), "SET LOCAL search_path TO nowhere")
        .await
        .unwrap();
    shop.commits(open, &lease).await;
    assert_eq!(shop.charges().await, 1);
}

#[tokio::test]
async fn a_lease_that_was_taken_over_takes_the_writes_with_it() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    shop.store.advance(MINUTE);
    let (successors, successor) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let commit = shop.commit(open, &lease).await;
    assert!(matches!(commit, Ok(Finished::Fenced)), "{commit:?}");
    assert_eq!(shop.charges().await, 0);
    shop.commits(successor, &successors).await;
}

#[tokio::test]
async fn rolling_back_undoes_the_writes_and_frees_the_key() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    shop.rolls_back(open, &lease).await;
    assert_eq!(shop.charges().await, 0);
    let (lease, _) = shop.begin("o-1").await;
    assert_eq!(lease.attempt, 2);
}

#[tokio::test]
async fn a_transaction_that_idles_too_long_ends_if_the_user_wants_that() {
    // Longer than `begin` pauses between its statements, on a machine that does much else too.
    let short = Duration::from_secs(1);
    let shop = Shop::with(|builder| builder.idle_in_transaction_timeout(short)).await;
    let (lease, open) = shop.begin("o-1").await;
    // Whoever gets the lock sees that the transaction has ended.
    let mut bystander = shop.bystander().await;
    loop {
        let left: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = $1 AND state = 'idle in transaction'",
        )
        .bind(&shop.schema)
        .fetch_one(&mut bystander)
        .await
        .unwrap();
        if left == 0 {
            break;
        }
    }
    let refused = shop.commit(open, &lease).await.unwrap();
    assert_matches!(&refused, Finished::Refused { error } if error.contains("idle"));
    assert!(!shop.is_completed("o-1").await);
}

#[tokio::test]
async fn a_server_that_ends_idle_transactions_earlier_is_left_to_do_so() {
    for (of_server, limit, is_ours) in [("0", 9, true), ("20s", 9, true), ("5s", 9, false)] {
        let server = postgres::shared().unwrap();
        let parameter = format!("options[idle_in_transaction_session_timeout]={of_server}");
        let url = format!("{}?{parameter}", server.url());
        let limit = Duration::from_secs(limit);
        let store = PostgresStore::builder(&url).schema(unique());
        let store = store.transaction_timeout(limit).build().await.unwrap();
        let Ok(Begun::Acquired(_, mut open)) = begin(&store, &request("o-1")).await else {
            panic!("nobody has claimed it");
        };
        let now: String = sqlx::query_scalar("SHOW idle_in_transaction_session_timeout")
            .fetch_one(lend(&mut open))
            .await
            .unwrap();
        assert_eq!(now, if is_ours { "9s" } else { of_server });
    }
}

/// A server whose client has gone would hold on to the handler's rows until then.
#[tokio::test]
async fn a_commit_that_waits_for_an_order_of_the_outbox_ends_before_the_server_counts_as_silent() {
    let shop = Shop::with(|builder| builder.response_timeout(Duration::from_secs(2))).await;
    let in_order = |outbox: Outbox| {
        outbox
            .ordered_by("customer-7")
            .publish(Told("handled"))
            .unwrap();
        outbox
    };
    let mut route = shop.bystander().await;
    execute(&mut route, "BEGIN").await.unwrap();
    let publishing = shop.store.publish(&mut route, in_order(Outbox::outside()));
    publishing.await.unwrap();

    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let outgoing = in_order(Outbox::for_key(&lease.key)).messages();
    let outcome = Outcome::new("done");
    let completion = Completion::new(&lease, &outcome, MINUTE).publishing(&outgoing);
    let complete = || Finish::Complete(completion);
    let finished = TransactionalStore::<Lent>::finish(&shop.store, open, complete()).await;
    let error = refusal(finished);
    assert!(error.contains("publishes in the same order"), "{error}");
    shop.nothing_is_locked().await;

    execute(&mut route, "COMMIT").await.unwrap();
    let released = shop.store.release(&lease, &Release::failed("no")).await;
    assert_eq!(released.unwrap(), Write::Applied);
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let completion = Completion::new(&lease, &outcome, MINUTE).publishing(&outgoing);
    let complete = Finish::Complete(completion);
    let finished = TransactionalStore::<Lent>::finish(&shop.store, open, complete).await;
    assert_eq!(finished.unwrap(), Finished::Committed);
    assert_eq!(shop.charges().await, 1);
}
