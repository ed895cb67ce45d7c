//! Runs that leave nothing.

use super::*;

#[tokio::test]
async fn a_handler_that_swallows_an_error_has_failed() {
    let till = Till::open().await;
    let swallow = act(|db, message: Message, attempt| {
        Box::pin(async move {
            insert(db, &message[0]).await?;
            let _ = run(db, "INSERT INTO nowhere VALUES (1)").await;
            Ok(attempt.number())
        })
    });
    let (attempt, error) = failed(&till.handle::<Pay, _>("o-1", &swallow).await);
    assert_eq!(attempt, 1);
    assert!(error.contains("went on after an error"), "{error}");
    assert_eq!(till.count("payments").await, 0);
}

#[tokio::test]
async fn a_handler_that_commits_by_itself_has_failed_and_its_row_counts() {
    for own_end in ["COMMIT", "COMMIT AND CHAIN", "COMMIT; BEGIN"] {
        let till = Till::open().await;
        let (attempt, error) = failed(&till.handle::<Pay, _>("o-1", &pay_and(own_end)).await);
        assert_eq!(attempt, 1);
        assert!(error.contains("by itself"), "{own_end}: {error}");
        till.store().advance(SECOND);
        is_duplicate(&till.handle::<Pay, _>("o-1", &pay()).await);
        assert_eq!(till.count("payments").await, 1, "{own_end}");
        assert_eq!(till.count("notes").await, 0, "{own_end}");
    }
}

#[tokio::test]
async fn a_handler_that_rolls_back_by_itself_has_failed() {
    for own_end in ["ROLLBACK", "ROLLBACK; BEGIN"] {
        let till = Till::open().await;
        let (_, error) = failed(&till.handle::<Pay, _>("o-1", &pay_and(own_end)).await);
        assert!(error.contains("by itself"), "{own_end}: {error}");
        assert_eq!(till.count("payments").await, 0, "{own_end}");
    }
}

#[tokio::test]
async fn a_handler_that_leaves_no_row_is_told_what_to_do() {
    let till = Till::open().await;
    till.pays("o-0").await;
    for leave_none in [
        "DELETE FROM payments WHERE order_id = 'o-1'",
        "UPDATE payments SET order_id = 'o-2' WHERE order_id = 'o-1'",
    ] {
        till.run("DELETE FROM idem_records").await;
        let (_, error) = failed(&till.handle::<Pay, _>("o-1", &pay_and(leave_none)).await);
        for words in [
            "payments",
            "payments_order_id_key",
            "order_id",
            "ON CONFLICT",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }
    assert_eq!(till.count("payments").await, 1);
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt() {
    let till = Till::open().await;
    let panics = act(|_, _, _| Box::pin(async { panic!("a bug") }));
    let (attempt, error) = failed(&till.handle::<Pay, _>("o-1", &panics).await);
    assert_eq!((attempt, &*error), (1, "the handler panicked: a bug"));
}

#[tokio::test]
async fn a_handler_past_the_stores_limit_is_rolled_back() {
    let url = postgres::shared().unwrap().url();
    let till = Till::at(&url, TABLES, |it| it.transaction_timeout(5 * SECOND)).await;
    let slow = act(|db, message: Message, _| {
        Box::pin(async move {
            insert(db, &message[0]).await?;
            std::future::pending().await
        })
    });
    let (_, error) = failed(&till.handle::<Pay, _>("o-1", &slow).await);
    assert!(error.contains("store's limit"), "{error}");
    till.store().advance(SECOND);
    till.pays("o-1").await;
}

#[tokio::test]
async fn a_rejection_is_for_good_and_leaves_nothing() {
    let till = Till::open().await;
    let reject = act(|db, message: Message, _| {
        Box::pin(async move {
            insert(db, &message[0]).await?;
            Err(Failed::rejected("no such customer"))
        })
    });
    let execution = till.handle::<Pay, _>("o-1", &reject).await;
    assert_matches!(execution, Execution::Rejected { attempt: 1, .. });
    assert_eq!(till.count("payments").await, 0);
    // A copy, or a replay, runs.
    till.pays("o-1").await;
}

fn asking(body: &str) -> Prepared<Pay> {
    let envelope = Envelope::builder(body.to_owned())
        .expects_reply(true)
        .build();
    Prepared::new(envelope, &policy()).unwrap()
}

#[tokio::test]
async fn a_requester_of_a_duplicate_is_told_that_it_was_done() {
    let till = Till::open().await;
    till.pays("o-1").await;
    let execution = till.handle_again(&mut asking("o-1"), &pay()).await;
    let Execution::Duplicate { outcome, .. } = execution else {
        panic!("{execution:?}")
    };
    let refusal = Prepared::<Pay>::recall(&outcome).unwrap_err();
    assert_eq!(refusal.code(), crate::handler::Refusal::OUTCOME_OUTDATED);
    assert!(refusal.message().contains("was done before"), "{refusal}");
}

#[tokio::test]
async fn a_requester_is_refused_what_is_rejected_however_often_it_asks() {
    let till = Till::open().await;
    let reject = act(|_, _, _| Box::pin(async { Err(Failed::rejected("no such customer")) }));
    let execution = till.handle_again(&mut asking("o-1"), &reject).await;
    let Execution::Refused {
        refusal,
        attempt: 1,
    } = execution
    else {
        panic!("{execution:?}")
    };
    assert_eq!(refusal.message(), "no such customer");
    for redelivered in [true, false] {
        let mut copy = asking("o-1").redelivered(redelivered);
        let again = till.handle_again(&mut copy, &pay()).await;
        let Execution::Duplicate { outcome, .. } = again else {
            panic!("{again:?}")
        };
        assert_eq!(Prepared::<Pay>::recall(&outcome).unwrap_err(), refusal);
    }
    assert_eq!(till.count("payments").await, 0);
}

#[tokio::test]
async fn a_closed_executor_runs_nothing() {
    let till = Till::open().await;
    till.executor.close();
    for attempted in [false, true] {
        let mut message = message::<Pay>("o-1").redelivered(attempted);
        let execution = till.handle_again(&mut message, &pay()).await;
        assert!(matches!(execution, Execution::Abandoned), "{execution:?}");
    }
    assert_eq!(till.count("payments").await, 0);
}

#[tokio::test]
async fn a_connection_is_as_new_for_the_next_handler() {
    let url = postgres::shared().unwrap().url();
    let till = Till::at(&url, TABLES, |it| it.connections(1)).await;
    let leaves = pay_and("SET lock_timeout = 1; SET search_path = pg_catalog; SET ROLE pg_monitor");
    assert_eq!(executed(till.handle::<Pay, _>("o-1", &leaves).await), 1);
    till.pays("o-2").await;
    is_duplicate(&till.handle::<Pay, _>("o-1", &pay()).await);
}
