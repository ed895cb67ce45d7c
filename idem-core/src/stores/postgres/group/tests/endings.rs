//! What a handler may do to the transaction that it shares.

use super::*;

/// `b` does this after it has charged, when it is beside others.
async fn b_runs(sql: &'static str) -> (Shop, Vec<Ended>) {
    let shop = Shop::open().await;
    let first = Once::new();
    let charging = charge_and(move |db, order| {
        let now = order == "b" && first.is_now();
        Box::pin(async move {
            if now {
                // What it answers is nobody's concern.
                let _ = run(db, sql).await;
            }
            Ok(())
        })
    });
    let all = shop.handle_together(&["a", "b", "c"], &charging).await;
    (shop, all)
}

#[tokio::test]
async fn an_error_that_a_member_swallows_costs_its_own_writes_only() {
    for orders in [&["b", "a", "c"][..], &["a", "b", "c"], &["a", "c", "b"]] {
        let shop = Shop::open().await;
        let charging = charge_and(|db, order| {
            Box::pin(async move {
                if order == "b" {
                    let _ = run(db, "INSERT INTO nowhere VALUES (1)").await;
                }
                Ok(())
            })
        });
        let mut all = shop.handle_together(orders, &charging).await;
        let place = orders.iter().position(|order| *order == "b").unwrap();
        match all.remove(place) {
            Execution::Failed {
                cause, attempt: 1, ..
            } => {
                let cause = cause.to_string();
                assert!(cause.contains("went on after an error"), "{cause}");
            }
            other => panic!("{other:?}"),
        }
        all_executed(&all);
        assert_eq!(shop.charges().await, ["a", "c"], "{orders:?}");
        assert_eq!(shop.transactions().await, 1, "{orders:?}");
        let told = (vec!["a".to_owned(), "c".to_owned()], 1);
        assert_eq!(shop.told().await, told, "{orders:?}");
    }
}

/// What `a` has written is there, and is not written again. The culprit's own writes stay as they
/// would without a group.
#[tokio::test]
async fn a_member_that_commits_by_itself_makes_nobody_elses_work_be_done_twice() {
    for commit in [
        "COMMIT",
        "COMMIT AND CHAIN",
        "COMMIT; BEGIN; INSERT INTO charges (id) VALUES ('x')",
        "COMMIT AND CHAIN; SAVEPOINT idem_member",
        // Nor if nobody can be asked on this connection any more.
        "COMMIT; SELECT pg_terminate_backend(pg_backend_pid())",
    ] {
        let (shop, all) = b_runs(commit).await;
        all_executed(&all);
        assert_eq!(shop.charges().await, ["a", "b", "b", "c"], "{commit}");
        for order in ["a", "b", "c"] {
            assert!(shop.is_completed(order).await, "{commit}: {order}");
        }
        // What `a` has published was not in that commit, and comes with its completion.
        assert_eq!(shop.told().await.0, ["a", "b", "c"], "{commit}");
    }
}

#[tokio::test]
async fn a_member_that_rolls_back_by_itself_makes_the_others_run_again() {
    for end in ["ROLLBACK", "ROLLBACK AND CHAIN"] {
        let (shop, all) = b_runs(end).await;
        all_executed(&all);
        assert_eq!(shop.charges().await, ["a", "b", "c"], "{end}");
        assert_eq!(shop.told().await.0, ["a", "b", "c"], "{end}");
    }
}

/// The driver rolls everything back, also what `a` has written, when `b` gives a nested transaction up before it has
/// begun. What `b` writes then is in no transaction.
#[tokio::test]
async fn a_member_that_goes_on_without_the_transaction_writes_nothing_and_costs_nobody_its_charge()
{
    for is_swallowed in [true, false] {
        let shop = Shop::open().await;
        let (first, code) = (Once::new(), Arc::new(Mutex::new(None)));
        let told = Arc::clone(&code);
        let charging = charge_and(move |db, order| {
            let (now, told) = (order == "b" && first.is_now(), Arc::clone(&told));
            Box::pin(async move {
                if !now {
                    return Ok(());
                }
                // On a busy machine the answer may be there at once: that one is only rolled back itself.
                while futures_util::poll!(Box::pin(db.begin()).as_mut()).is_ready() {}
                let stray = charge(db, "stray").await;
                *told.lock().unwrap() = stray.as_ref().err().and_then(code_of);
                if is_swallowed { Ok(()) } else { Ok(stray?) }
            })
        });
        let all = shop.handle_together(&["a", "b", "c"], &charging).await;
        let code = code.lock().unwrap().take();
        assert_eq!(code.as_deref(), Some("25006"), "read only");
        all_executed(&all);
        assert_eq!(shop.charges().await, ["a", "b", "c"]);
    }
}

fn code_of(error: &sqlx::Error) -> Option<String> {
    let code = error.as_database_error()?.code()?;
    Some(code.into_owned())
}

#[tokio::test]
async fn a_member_may_use_savepoints_of_its_own() {
    let shop = Shop::open().await;
    let charging = charge_and(|db, order| {
        Box::pin(async move {
            let mut undone = db.begin().await?;
            charge(&mut undone, "undone").await?;
            let _ = run(&mut undone, "INSERT INTO nowhere VALUES (1)").await;
            drop(undone);
            let mut kept = db.begin().await?;
            charge(&mut kept, &order).await?;
            kept.commit().await?;
            Ok(())
        })
    });
    all_executed(&shop.handle_together(&["a", "b"], &charging).await);
    assert_eq!(shop.charges().await, ["a", "a", "b", "b"]);
    assert_eq!(shop.transactions().await, 1);
}

/// Nobody knows before the commit whose it was: each is tried by itself.
#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_fails_its_own_message_only() {
    let shop = Shop::open().await;
    let charging = charge_and(|db, order| {
        Box::pin(async move {
            if order == "b" {
                run(db, "INSERT INTO receipts VALUES ('twin'), ('twin')").await?;
            }
            Ok(())
        })
    });
    let mut all = shop.handle_together(&["a", "b", "c"], &charging).await;
    let failed = all.remove(1);
    assert_matches!(failed, Execution::Failed { attempt: 1, .. });
    all_executed(&all);
    assert_eq!(shop.charges().await, ["a", "c"]);
}

#[tokio::test]
async fn a_role_that_a_member_sets_is_not_the_next_ones() {
    let shop = Shop::open().await;
    let role = "idem_group_member";
    let grants = format!(
        "DO $$ BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    );
    run(&mut shop.bystander().await, grants).await.unwrap();
    let charging = charge_and(move |db, order| {
        Box::pin(async move {
            if order == "a" {
                run(db, format!("SET LOCAL ROLE {role}")).await?;
            }
            Ok(())
        })
    });
    all_executed(&shop.handle_together(&["a", "b"], &charging).await);
    assert_eq!(shop.transactions().await, 1);
}

/// As it is sent when another member has committed, and sent again when that is not answered.
#[tokio::test]
async fn a_late_completion_that_was_carried_out_is_not_refused_when_it_is_sent_again() {
    let shop = Shop::open().await;
    let store = &shop.store;
    let Claim::Acquired(lease) = store.claim(&request("a")).await.unwrap() else {
        panic!("the key is free");
    };
    let outbox = Outbox::for_key(&lease.key);
    let told = outbox.after(Duration::from_hours(1));
    told.publish(Told("a is handled")).unwrap();
    let (outgoing, outcome) = (outbox.messages(), Outcome::new("null"));
    for ends in [Finished::Committed, Finished::Fenced] {
        let opened = TransactionalStore::<PgConnection>::open(store, Open::Batch).await;
        let completion = Completion::new(&lease, &outcome, MINUTE).publishing(&outgoing);
        let complete = Finish::Complete(completion);
        let opened = opened.unwrap();
        let finished = TransactionalStore::<PgConnection>::finish(store, opened, complete).await;
        assert_eq!(finished.unwrap(), ends);
    }
    let counts = TransactionalStore::<PgConnection>::outbox(store).unwrap();
    assert_eq!(counts.counts().await.unwrap().later, 1);
}
