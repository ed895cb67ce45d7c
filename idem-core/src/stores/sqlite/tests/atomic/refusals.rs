use super::*;
use crate::{handler::RecordedRow, store::Open};

#[tokio::test]
async fn a_handler_that_ends_the_transaction_by_itself_is_refused() {
    for own_end in [
        "COMMIT",
        "ROLLBACK",
        "ROLLBACK; BEGIN",
        "ROLLBACK; BEGIN; INSERT INTO charges VALUES ('later')",
        "ROLLBACK TO idem_handler; RELEASE idem_handler",
    ] {
        // One connection, so that it is lent again at once.
        let shop = Shop::with(|builder| builder.connections(1)).await;
        let (lease, mut open) = shop.begin("o-1").await;
        execute(lend(&mut open), own_end).await.unwrap();
        refusal(shop.commit(open, &lease).await);
        shop.nothing_is_locked().await;

        let released = shop.store.release(&lease, &Release::failed("no")).await;
        assert_eq!(released.unwrap(), Write::Applied, "{own_end}");
        let before = shop.charges().await;
        let (lease, mut open) = shop.begin("o-1").await;
        charge(lend(&mut open)).await;
        assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
        assert_eq!(shop.charges().await, before + 1, "{own_end}");
    }
}

/// Nobody can tell what it wanted, and it is done or not done with the rest.
#[tokio::test]
async fn a_nested_transaction_that_a_handler_forgets_is_committed_with_the_rest() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    for id in ["o-1", "o-2"] {
        let (lease, mut open) = shop.begin(id).await;
        charge(lend(&mut open)).await;
        std::mem::forget(lend(&mut open).begin().await.unwrap());
        charge(lend(&mut open)).await;
        let ended = shop.commit(open, &lease).await;
        assert!(matches!(ended, Ok(Finished::Committed)), "{ended:?}");
        assert!(is_completed(&shop.store, id).await);
    }
    assert_eq!(shop.charges().await, 4);
    // What is undone on that connection is undone as ever.
    let (_, mut open) = shop.begin("o-3").await;
    charge(lend(&mut open)).await;
    shop.rolls_back(open).await;
    shop.begin("o-4").await;
    assert_eq!(shop.charges().await, 4);
}

#[tokio::test]
async fn a_swallowed_error_of_one_statement_costs_that_statement_only() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let twice = "INSERT INTO unique_charges VALUES ('a'), ('a')";
    assert!(execute(lend(&mut open), twice).await.is_err());
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
    assert_eq!(shop.charges().await, 1);
}

#[tokio::test]
async fn a_swallowed_error_that_ended_the_transaction_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let fatal = "INSERT OR ROLLBACK INTO unique_charges VALUES ('a'), ('a')";
    assert!(execute(lend(&mut open), fatal).await.is_err());
    refusal(shop.commit(open, &lease).await);
    assert_eq!(shop.charges().await, 0);
    assert!(!is_completed(&shop.store, "o-1").await);
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let orphan = "INSERT INTO children VALUES ('nobody')";
    execute(lend(&mut open), orphan).await.unwrap();
    let error = refusal(shop.commit(open, &lease).await);
    assert!(error.contains("FOREIGN KEY"), "{error}");
    assert_eq!(shop.charges().await, 0);
    assert!(!is_completed(&shop.store, "o-1").await);
    shop.nothing_is_locked().await;
}

#[tokio::test]
async fn a_snapshot_that_is_out_of_date_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    execute(lend(&mut open), "SELECT * FROM charges")
        .await
        .unwrap();
    acquire(&shop.store, "somebody else").await;
    let error = refusal(shop.commit(open, &lease).await);
    assert!(error.contains("locked"), "{error}");
    assert!(!is_completed(&shop.store, "o-1").await);
}

#[tokio::test]
async fn an_opening_and_a_finish_that_no_sqlite_has_are_refused_and_commit_nothing() {
    let shop = Shop::open().await;
    let group = Open::Group {
        handler: "orders",
        size: 8,
    };
    let opened = TransactionalStore::<Lent>::open(&shop.store, group).await;
    assert!(matches!(opened, Err(StoreError::Refused(_))), "{opened:?}");

    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let record = Finish::Record {
        entity: &RecordedRow {
            constraint: "charges_id_key",
            parts: vec!["o-1".to_owned()],
        },
        lease: Some(&lease),
    };
    let ended = TransactionalStore::<Lent>::finish(&shop.store, open, record).await;
    assert!(matches!(ended, Err(StoreError::Refused(_))), "{ended:?}");
    assert_eq!(shop.charges().await, 0);
    shop.nothing_is_locked().await;
}
