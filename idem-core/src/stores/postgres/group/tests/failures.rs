//! What becomes of one that fails, and of the others.

use std::panic::resume_unwind;

use super::*;

/// `b` ends in this way, each time.
async fn b_ends(act: impl Fn() -> Result<(), Failed> + Send + Sync + 'static) -> (Shop, Ended) {
    let shop = Shop::open().await;
    let act = Arc::new(act);
    let charging = charge_and(move |_, order| {
        let act = Arc::clone(&act);
        Box::pin(async move { if order == "b" { act() } else { Ok(()) } })
    });
    let mut all = shop.handle_together(&["a", "b", "c"], &charging).await;
    let failed = all.remove(1);
    all_executed(&all);
    assert_eq!(shop.charges().await, ["a", "c"]);
    assert_eq!(shop.transactions().await, 1);
    (shop, failed)
}

#[tokio::test]
async fn what_a_failed_member_has_written_is_rolled_back_alone() {
    let (shop, failed) = b_ends(|| Err(Failed::retry("not now"))).await;
    assert_matches!(failed, Execution::Failed { attempt: 1, .. });
    shop.store.advance(MINUTE);
    let again = shop.handle("b", &charge_only()).await;
    assert_matches!(again, Execution::Executed { attempt: 2, .. });
    assert_eq!(shop.charges().await, ["a", "b", "c"]);
}

#[tokio::test]
async fn what_a_rejecting_member_has_written_is_rolled_back_alone() {
    let (_shop, rejected) = b_ends(|| Err(Failed::rejected("never"))).await;
    assert_matches!(rejected, Execution::Rejected { attempt: 1, .. });
}

#[tokio::test]
async fn what_a_panicking_member_has_written_is_rolled_back_alone() {
    // A panic whose backtrace nobody writes: that takes longer than a group waits for its members.
    let (_shop, failed) = b_ends(|| resume_unwind(Box::new("a bug in the handler"))).await;
    assert_matches!(failed, Execution::Failed { attempt: 1, .. });
}

#[tokio::test]
async fn a_rejection_in_a_group_is_remembered() {
    let shop = Shop::open().await;
    let _others = shop.others().await;
    let rejecting = charge_and(|_, _| Box::pin(async { Err(Failed::rejected("taken")) }));
    let ask = || Envelope::builder("a").expects_reply(true).build();
    let refused = shop.handle_envelope(ask(), &rejecting).await;
    assert_matches!(refused, Execution::Refused { attempt: 1, .. });
    let copy = shop.handle_envelope(ask(), &charge_only()).await;
    assert!(matches!(copy, Execution::Duplicate { .. }), "{copy:?}");
    assert_eq!(shop.charges().await, Vec::<String>::new());
}

/// The others do not wait for it, and keep what they have written.
#[tokio::test]
async fn whoever_is_dropped_in_its_slot_leaves_nothing_behind() {
    let shop = Shop::open().await;
    let _others = shop.others().await;
    let told = Arc::new(Notify::new());
    let telling = Arc::clone(&told);
    let stuck = charge_and(move |db, order| {
        let telling = Arc::clone(&telling);
        Box::pin(async move {
            if order == "a" {
                telling.notify_one();
                run(db, "SELECT pg_sleep(0.3)").await?;
            }
            Ok(())
        })
    });
    let mut first = Box::pin(shop.handle("a", &stuck));
    tokio::select! {
        _ = &mut first => panic!("it is dropped before"),
        () = told.notified() => {}
    }
    let dropped = async {
        shop.have_come(1).await;
        drop(first);
    };
    let (second, ()) = tokio::join!(shop.handle("b", &stuck), dropped);
    all_executed(&[second]);
    assert_eq!(shop.charges().await, ["b"]);
    assert!(!shop.is_completed("a").await);
}

/// A message that has failed before does not put the others at risk.
#[tokio::test]
async fn a_further_attempt_joins_no_group() {
    let shop = Shop::open().await;
    let failing = charge_and(|_, _| Box::pin(async { Err(Failed::retry("not now")) }));
    let failed = shop.handle("a", &failing).await;
    assert!(matches!(failed, Execution::Failed { .. }), "{failed:?}");
    shop.store.advance(MINUTE);
    let _others = shop.others().await;
    let again = shop.handle("a", &charge_only()).await;
    assert_matches!(again, Execution::Executed { attempt: 2, .. });
    assert!(shop.store.groups.queues.lock().unwrap().is_empty());
}

/// `b` makes the server end the session of its transaction, also when it is by itself.
#[tokio::test]
async fn whoever_idles_longer_than_the_server_lets_it_has_failed_alone() {
    // Longer than it takes the others to come.
    let short = Duration::from_secs(2);
    let shop = Shop::with(|builder| builder.groups(1).idle_in_transaction_timeout(short)).await;
    let url = shop.url.clone();
    let charging = charge_and(move |db, order| {
        let url = url.clone();
        Box::pin(async move {
            if order == "b" {
                until_the_server_ends_it(&url, db).await;
            }
            Ok(())
        })
    });
    let all = shop.handle_together(&["b", "a", "c"], &charging).await;
    let [b, others @ ..] = &*all else {
        unreachable!("there are three")
    };
    assert!(matches!(b, Execution::Failed { .. }), "{b:?}");
    assert!(others.iter().all(executed), "{others:?}");
    assert_eq!(shop.charges().await, ["a", "c"]);
}

/// What `a` has written is committed when `b` makes the server end the session of a further transaction.
#[tokio::test]
async fn nobody_runs_twice_because_a_member_that_has_committed_by_itself_idles_for_too_long() {
    for goes_on in ["COMMIT; BEGIN", "COMMIT AND CHAIN"] {
        let shop = Shop::open().await;
        let (url, first) = (shop.url.clone(), Once::new());
        let charging = charge_and(move |db, order| {
            let (url, now) = (url.clone(), order == "b" && first.is_now());
            Box::pin(async move {
                if now {
                    let soon = "SET LOCAL idle_in_transaction_session_timeout = 50";
                    run(db, format!("{goes_on}; {soon}")).await?;
                    until_the_server_ends_it(&url, db).await;
                }
                Ok(())
            })
        });
        let all = shop.handle_together(&["a", "b", "c"], &charging).await;
        all_executed(&all);
        assert_eq!(shop.charges().await, ["a", "b", "b", "c"], "{goes_on}");
    }
}

async fn until_the_server_ends_it(url: &str, db: &mut PgConnection) {
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(db)
        .await
        .unwrap();
    let mut bystander = PgConnection::connect(url).await.unwrap();
    let is_there = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
    while sqlx::query_scalar::<_, i64>(is_there)
        .bind(pid)
        .fetch_one(&mut bystander)
        .await
        .unwrap()
        > 0
    {
        tokio::task::yield_now().await;
    }
}
