//! Answers that the driver has left unread, in a transaction that is shared.

use sqlx::Row as _;

use super::*;

/// The driver does not read to the end of its answer, so each later one comes one exchange late.
async fn fail_to_copy(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    run(db, "SAVEPOINT copying").await?;
    let copied = db.copy_out_raw("COPY no_such_table TO STDOUT").await;
    assert!(copied.is_err(), "the server refuses it");
    drop(copied);
    run(db, "ROLLBACK TO SAVEPOINT copying").await
}

/// `order` leaves an answer unread beside others, and then does this.
fn copies_in_vain(order: &'static str, then: &'static str) -> Act {
    let first = Once::new();
    charge_and(move |db, this| {
        let now = this == order && first.is_now();
        Box::pin(async move {
            if now {
                fail_to_copy(db).await?;
                run(db, then).await?;
            }
            Ok(())
        })
    })
}

#[tokio::test]
async fn no_member_is_completed_by_an_answer_that_is_not_the_commits() {
    let orphan = "INSERT INTO receipts VALUES ('twin'), ('twin')";
    for (orders, culprit) in [(["a", "b", "c"], "c"), (["a", "b", "c"], "b")] {
        let shop = Shop::open().await;
        let copying = copies_in_vain(culprit, orphan);
        let all = shop.handle_together(&orders, &copying).await;
        let charges = shop.charges().await;
        for (order, ended) in orders.iter().zip(&all) {
            let times = charges.iter().filter(|charge| charge == order).count();
            if matches!(
                ended,
                Execution::Executed { .. } | Execution::Duplicate { .. }
            ) {
                assert_eq!(times, 1, "{culprit}: {order}: {all:?} {charges:?}");
            } else {
                assert_eq!(times, 0, "{culprit}: {order}: {all:?} {charges:?}");
            }
            let done = shop.is_completed(order).await;
            assert_eq!(done, times == 1, "{culprit}: {order}: {all:?}");
        }
        shop.store.advance(MINUTE);
        for order in orders {
            let again = shop.handle(order, &copying).await;
            let is_done = matches!(
                again,
                Execution::Executed { .. } | Execution::Duplicate { .. }
            );
            assert!(is_done, "{culprit}: {order}: {again:?}");
        }
        assert_eq!(shop.charges().await, orders, "{culprit}");
    }
}

/// `a` or `b` leaves an answer unread and goes on, or fails. Each reads what it has written itself.
#[tokio::test]
async fn whoever_shares_a_transaction_gets_the_answers_to_its_own_statements() {
    for (culprit, fails) in [("a", false), ("a", true), ("b", true)] {
        let shop = Shop::open().await;
        let (first, misled) = (Once::new(), Arc::new(AtomicBool::new(false)));
        let found_out = Arc::clone(&misled);
        let copying = act(move |db, order, attempt| {
            let copies = order == culprit && first.is_now();
            let misled = Arc::clone(&misled);
            Box::pin(async move {
                // Nothing is prepared: the driver would find out when it forgets what is.
                run(db, format!("INSERT INTO charges (id) VALUES ('{order}')")).await?;
                if own_charges(db, &order).await != Some(1) {
                    misled.store(true, Ordering::SeqCst);
                }
                if copies {
                    fail_to_copy(db).await?;
                }
                if copies && fails {
                    return Err(Failed::retry("not now"));
                }
                Ok(attempt.number())
            })
        });
        let all = shop.handle_together(&["a", "b", "c"], &copying).await;
        let is_misled = found_out.load(Ordering::SeqCst);
        assert!(!is_misled, "{culprit}, {fails}: {all:?}");
        all_executed(&all);
        assert_eq!(shop.charges().await, ["a", "b", "c"], "{culprit}, {fails}");
    }
}

/// `None` if something else is answered.
async fn own_charges(db: &mut PgConnection, order: &str) -> Option<i64> {
    let own = format!("SELECT count(*) FROM charges WHERE id = '{order}'");
    let own = sqlx::raw_sql(sqlx::AssertSqlSafe(own));
    let row = own.fetch_optional(db).await.ok()??;
    row.try_get(0).ok()
}
