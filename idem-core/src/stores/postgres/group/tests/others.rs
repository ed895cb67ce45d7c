//! Who shares a transaction, and who does not.

use super::*;
use crate::store::Completion;

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[tokio::test]
async fn messages_that_come_together_share_a_commit() {
    let shop = Shop::open().await;
    all_executed(&shop.handle_together(&EIGHT, &charge_only()).await);
    assert_eq!(shop.charges().await, EIGHT);
    assert_eq!(shop.transactions().await, 1);
    for order in EIGHT {
        assert!(shop.is_completed(order).await, "{order}");
    }
}

#[tokio::test]
async fn a_group_has_no_more_members_than_it_may_have() {
    let shop = Shop::open().await;
    let ten = [&EIGHT[..], &["i", "j"]].concat();
    all_executed(&shop.handle_together(&ten, &charge_only()).await);
    assert_eq!(shop.charges().await, ten);
    assert_eq!(shop.transactions().await, 2);
}

#[tokio::test]
async fn a_group_that_has_been_open_for_long_takes_nobody_else() {
    let mut shop = Shop::open().await;
    let long = Duration::from_millis(20);
    shop.store.groups.takes_for = long;
    shop.executor = Executor::new(shop.store.clone());
    let takes_long = charge_and(move |_, _| {
        Box::pin(async move {
            tokio::time::sleep(2 * long).await;
            Ok(())
        })
    });
    all_executed(&shop.handle_together(&["a", "b"], &takes_long).await);
    assert_eq!(shop.charges().await, ["a", "b"]);
    assert_eq!(shop.transactions().await, 2);
}

#[tokio::test]
async fn a_message_that_is_alone_joins_no_group() {
    let shop = Shop::open().await;
    assert!(executed(&shop.handle("a", &charge_only()).await));
    assert_eq!(shop.charges().await, ["a"]);
    let queues = shop.store.groups.queues.lock().unwrap();
    assert!(queues.is_empty());
}

/// It may be what ended its worker, and that costs an attempt of all that have claimed.
#[tokio::test]
async fn a_message_that_was_delivered_before_joins_no_group() {
    let shop = Shop::open().await;
    let _others = shop.others().await;
    let policy = Policy::DEFAULT;
    let mut message = Prepared::<Charge>::new(Envelope::new("a"), &policy)
        .unwrap()
        .redelivered(true);
    let ended = shop.executor.handle(&mut message, &charge_only()).await;
    assert!(executed(&ended), "{ended:?}");
    let queues = shop.store.groups.queues.lock().unwrap();
    assert!(queues.is_empty());
}

#[tokio::test]
async fn a_copy_is_a_duplicate_in_a_group_too() {
    let shop = Shop::open().await;
    all_executed(&shop.handle_together(&["a", "b"], &charge_only()).await);
    let _others = shop.others().await;
    let copy = shop.handle("a", &charge_only()).await;
    assert!(matches!(copy, Execution::Duplicate { .. }), "{copy:?}");
    assert_eq!(shop.charges().await, ["a", "b"]);
}

#[tokio::test]
async fn whoever_is_dropped_while_it_waits_for_a_slot_leaves_the_queue() {
    let shop = Shop::open().await;
    let _others = shop.others().await;
    let act = shop.first_waits_for(2, &charge_only());
    let first = shop.handle("a", &act);
    let others = async {
        shop.have_come(0).await;
        let mut gone = Box::pin(shop.handle("b", &act));
        tokio::select! {
            _ = &mut gone => panic!("the slot is taken"),
            () = shop.have_come(1) => {}
        }
        drop(gone);
        tokio::join!(shop.handle("c", &act), shop.handle("d", &act))
    };
    let (first, (second, third)) = tokio::join!(first, others);
    all_executed(&[first, second, third]);
    assert_eq!(shop.charges().await, ["a", "c", "d"]);
    assert_eq!(shop.transactions().await, 1);
    // It never ran: its claim is free when its lease has ended.
    shop.store.advance(MINUTE);
    assert!(!executed(&shop.handle("b", &charge_only()).await));
    assert_eq!(shop.charges().await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn whoever_waits_for_a_slot_when_nothing_is_to_begin_any_more_is_abandoned() {
    let shop = Shop::open().await;
    let executor = shop.executor.clone();
    let closing = charge_and(move |_, _| {
        executor.close();
        Box::pin(async { Ok(()) })
    });
    let all = shop.handle_together(&["a", "b", "c"], &closing).await;
    assert!(executed(&all[0]), "{all:?}");
    let abandoned = |ended: &Ended| matches!(ended, Execution::Abandoned);
    assert!(all[1..].iter().all(abandoned), "{all:?}");
    assert_eq!(shop.charges().await, ["a"]);
}

/// What they would see of each other is not what they have asked for.
#[tokio::test]
async fn at_another_isolation_level_each_message_has_its_own_transaction() {
    let server = postgres::shared().unwrap();
    for level in ["repeatable read", "serializable"] {
        let name = format!("group_level_{}", &level[..6]);
        let _ = server.query("idem", &format!("CREATE DATABASE {name}"));
        let set = format!("ALTER DATABASE {name} SET default_transaction_isolation = '{level}'");
        server.query("idem", &set).unwrap();
        let shop = Shop::at(&server.url_of(&name), |builder| builder.groups(1)).await;
        assert_eq!(GroupStore::<PgConnection>::groups(&shop.store), 0);
        let act = charge_only();
        let (one, other) = tokio::join!(shop.handle("a", &act), shop.handle("b", &act));
        all_executed(&[one, other]);
        assert_eq!(shop.transactions().await, 2);
    }
}

/// A slot that is to end so is undone, and the one before it commits.
#[tokio::test]
async fn a_slot_that_is_to_end_with_an_entity_is_refused_and_rolled_back() {
    let shop = Shop::open().await;
    let open = || {
        let group = Open::Group {
            handler: Charge::SCOPE,
            size: 8,
        };
        TransactionalStore::<PgConnection>::open(&shop.store, group)
    };
    let leases = [claimed(&shop, "a").await, claimed(&shop, "b").await];
    let mut first = open().await.unwrap();
    let mut second = Box::pin(open());
    assert!(futures_util::poll!(&mut second).is_pending(), "it waits");
    charge(PostgresStore::lend(&mut first), "a").await.unwrap();
    let outcome = Outcome::new("charged");
    let complete = Finish::Complete(Completion::new(&leases[0], &outcome, MINUTE));
    let mut left = Box::pin(TransactionalStore::<PgConnection>::finish(
        &shop.store,
        first,
        complete,
    ));
    assert!(futures_util::poll!(&mut left).is_pending(), "it is shared");
    let mut second = second.await.unwrap();
    charge(PostgresStore::lend(&mut second), "b").await.unwrap();
    let record = Finish::Record {
        entity: &RecordedRow {
            constraint: "charges_pkey",
            parts: vec!["b".to_owned()],
        },
        lease: Some(&leases[1]),
    };
    let ended = TransactionalStore::<PgConnection>::finish(&shop.store, second, record).await;
    assert!(matches!(ended, Err(StoreError::Refused(_))), "{ended:?}");
    assert_eq!(left.await.unwrap(), Finished::Committed);
    assert_eq!(shop.charges().await, ["a"]);
}

async fn claimed(shop: &Shop, order: &str) -> Lease {
    match GroupStore::<PgConnection>::claim_for_group(&shop.store, &request(order)).await {
        Ok(Claim::Acquired(lease)) => lease,
        other => panic!("{other:?}"),
    }
}
