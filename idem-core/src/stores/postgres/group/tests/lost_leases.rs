//! Leases that are lost beside others.

use super::*;

/// `b`'s lease is taken over when it has charged, and its successor ends in this way.
async fn b_is_taken_over(ends: Option<Outcome>) -> (Shop, Vec<Ended>) {
    let shop = Shop::open().await;
    let (store, first, ends) = (shop.store.clone(), Once::new(), Arc::new(ends));
    let charging = charge_and(move |_, order| {
        let (store, now) = (store.clone(), order == "b" && first.is_now());
        let ends = Arc::clone(&ends);
        Box::pin(async move {
            if now {
                // Its own, and nobody else's.
                let sql = "UPDATE idem_records SET lease_ends = now() WHERE key = 'orders:b'";
                let mut thief = PgConnection::connect_with(&store.address.options).await?;
                run(&mut thief, sql).await?;
                let Claim::Acquired(lease) = store.claim(&request("b")).await? else {
                    panic!("the lease has ended");
                };
                if let Some(outcome) = &*ends {
                    let write = store.complete(&lease, outcome, MINUTE).await?;
                    assert_eq!(write, Write::Applied);
                }
            }
            Ok(())
        })
    });
    let all = shop.handle_together(&["a", "b", "c"], &charging).await;
    (shop, all)
}

#[tokio::test]
async fn a_member_whose_successor_is_at_work_commits_nothing_and_the_others_do() {
    let (shop, mut all) = b_is_taken_over(None).await;
    let held = all.remove(1);
    assert!(matches!(held, Execution::Conflict { .. }), "{held:?}");
    all_executed(&all);
    assert_eq!(shop.charges().await, ["a", "c"]);
}

#[tokio::test]
async fn a_member_whose_successor_has_completed_is_a_duplicate_and_the_others_commit() {
    let (shop, mut all) = b_is_taken_over(Some(Outcome::new("7"))).await;
    let copy = all.remove(1);
    assert!(matches!(copy, Execution::Duplicate { .. }), "{copy:?}");
    all_executed(&all);
    assert_eq!(shop.charges().await, ["a", "c"]);
}

/// The heart beats while it waits for its slot, runs, and waits for the commit.
#[tokio::test]
async fn a_group_that_takes_longer_than_the_leases_keeps_them() {
    let shop = Shop::open().await;
    let _others = shop.others().await;
    let slow = shop.first_waits_for(
        2,
        &charge_and(|_, _| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(())
            })
        }),
    );
    let policy = Policy::builder().lease(Duration::from_millis(300));
    let policy = policy.build().unwrap();
    let handle = async |order: &'static str| {
        let envelope = Envelope::new(order);
        let mut message = Prepared::<Charge>::new(envelope, &policy).unwrap();
        shop.executor.handle(&mut message, &slow).await
    };
    let (one, two, three) = tokio::join!(handle("a"), handle("b"), handle("c"));
    all_executed(&[one, two, three]);
    assert_eq!(shop.charges().await, ["a", "b", "c"]);
    assert_eq!(shop.transactions().await, 1);
}
