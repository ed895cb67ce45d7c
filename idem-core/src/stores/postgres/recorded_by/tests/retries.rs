//! Attempts, counted once something has failed.

use super::*;
use crate::store::{Claim, ClaimRequest, Store as _};

fn failing() -> Act<Failed> {
    act(|_, _, _| Box::pin(async { Err(Failed::retry("not yet")) }))
}

async fn record(till: &Till) -> Option<(String, i32)> {
    let mut bystander = till.bystander().await;
    sqlx::query_as("SELECT state, attempts FROM idem_records")
        .fetch_optional(&mut bystander)
        .await
        .unwrap()
}

/// As a worker does with what it holds.
async fn again(
    till: &Till,
    message: &mut Prepared<Pay>,
    act: &Act<Failed>,
) -> Execution<u32, Failed> {
    message.renew_owner();
    till.handle_again(message, act).await
}

#[tokio::test]
async fn failures_are_counted_and_delayed_and_end_exhausted() {
    let till = Till::open().await;
    let mut held = message::<Pay>("o-1");
    let first = till.handle_again(&mut held, &failing()).await;
    let Execution::Failed {
        attempt: 1,
        retry_after,
        ..
    } = first
    else {
        panic!("{first:?}")
    };
    assert!(
        retry_after > Duration::ZERO && retry_after <= SECOND,
        "{retry_after:?}"
    );
    assert_eq!(record(&till).await, Some(("failed".into(), 1)));

    let early = again(&till, &mut held, &failing()).await;
    assert!(matches!(early, Execution::Conflict { .. }), "{early:?}");
    till.store().advance(SECOND);
    assert_eq!(failed(&again(&till, &mut held, &failing()).await).0, 2);
    till.store().advance(SECOND);
    // Comes back by the transport.
    let mut last = message::<Pay>("o-1").redelivered(true);
    let last = till.handle_again(&mut last, &failing()).await;
    assert_matches!(last, Execution::Exhausted { attempt: 3, .. });
    // Sent again by a person, it starts over.
    let mut replay = message::<Pay>("o-1").replay(true);
    assert_eq!(
        failed(&till.handle_again(&mut replay, &failing()).await).0,
        1
    );
}

#[tokio::test]
async fn an_attempt_that_succeeds_at_last_leaves_no_record() {
    let till = Till::open().await;
    let mut held = message::<Pay>("o-1");
    assert_eq!(failed(&till.handle_again(&mut held, &failing()).await).0, 1);
    till.store().advance(SECOND);
    assert_eq!(executed(again(&till, &mut held, &pay()).await), 2);
    assert_eq!(record(&till).await, None);
    is_duplicate(&till.handle::<Pay, _>("o-1", &pay()).await);
}

#[tokio::test]
async fn a_copy_that_fails_beside_a_failed_message_waits_for_its_time() {
    let till = Till::open().await;
    assert_eq!(failed(&till.handle::<Pay, _>("o-1", &failing()).await).0, 1);
    let copy = till.handle::<Pay, _>("o-1", &failing()).await;
    assert!(matches!(copy, Execution::Conflict { .. }), "{copy:?}");
    assert_eq!(record(&till).await, Some(("failed".into(), 1)));
}

/// Looks at the record while its handler runs.
fn looking(url: &str) -> Act<Failed> {
    let url = url.replace("&application_name=", "&application_name=not_");
    act(move |db, message, attempt| {
        let url = url.clone();
        Box::pin(async move {
            let mut bystander = PgConnection::connect(&url).await?;
            let seen: (String, i32) = sqlx::query_as("SELECT state, attempts FROM idem_records")
                .fetch_one(&mut bystander)
                .await?;
            assert_eq!(seen, ("in_progress".to_owned(), 1));
            insert(db, &message[0]).await?;
            Ok(attempt.number())
        })
    })
}

#[tokio::test]
async fn a_redelivery_is_counted_before_it_runs() {
    let till = Till::open().await;
    let mut redelivered = message::<Pay>("o-1").redelivered(true);
    let execution = till
        .handle_again(&mut redelivered, &looking(&till.url))
        .await;
    assert_eq!(executed(execution), 1);
    assert_eq!(record(&till).await, None);
    let mut copy = message::<Pay>("o-1").redelivered(true);
    is_duplicate(&till.handle_again(&mut copy, &pay()).await);
    assert_eq!(record(&till).await, None);
}

#[tokio::test]
async fn a_message_that_kills_its_worker_is_given_up_in_the_end() {
    let till = Till::open().await;
    let hang = act(|_, _, _| Box::pin(std::future::pending()));
    for delivery in 0..4 {
        let mut message = message::<Pay>("o-1").redelivered(delivery > 0);
        // The handler is dropped with its worker.
        let died = tokio::time::timeout(SECOND, till.handle_again(&mut message, &hang)).await;
        assert!(died.is_err());
        till.store().advance(30 * SECOND);
    }
    let mut survivors = message::<Pay>("o-1").redelivered(true);
    let execution = till.handle_again(&mut survivors, &hang).await;
    assert_matches!(
        execution,
        Execution::Exhausted {
            cause: Cause::Vanished,
            attempt: 3
        }
    );
}

#[tokio::test]
async fn a_zombie_commits_nothing() {
    let till = Till::open().await;
    let store = till.store().clone();
    let zombie = act(move |db, message, attempt| {
        let store = store.clone();
        Box::pin(async move {
            // It stands still for longer than its lease, and another one takes over.
            store.advance(40 * SECOND);
            let successor = ClaimRequest::new(Key::new("payments", "o-1").unwrap(), &policy());
            let claim = store.claim(&successor).await.unwrap();
            assert!(matches!(claim, Claim::Acquired(_)), "{claim:?}");
            insert(db, &message[0]).await?;
            Ok(attempt.number())
        })
    });
    let mut message = message::<Pay>("o-1").redelivered(true);
    let execution = till.handle_again(&mut message, &zombie).await;
    assert_matches!(execution, Execution::LeaseLost { attempt: 1 });
    assert_eq!(till.count("payments").await, 0);
}

/// Its release may take as long as the store is away, or as somebody keeps the record locked.
#[tokio::test]
async fn a_claim_that_is_given_back_keeps_no_transaction_open() {
    let till = Till::open().await;
    till.run(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_advisory_xact_lock(hashtext(current_schema()));
            RETURN new;
         END $$;
         CREATE TRIGGER wait BEFORE UPDATE ON idem_records FOR EACH ROW EXECUTE FUNCTION wait()",
    )
    .await;
    let mut holder = till.bystander().await;
    run(
        &mut holder,
        "SELECT pg_advisory_lock(hashtext(current_schema()))",
    )
    .await
    .unwrap();
    till.executor.close();
    let mut again = message::<Pay>("o-1").redelivered(true);
    let act = pay();
    let handled = till.handle_again(&mut again, &act);
    let watched = async {
        till.somebody_waits().await;
        let open = till.open_transactions().await;
        drop(holder);
        open
    };
    let (execution, open) = tokio::join!(handled, watched);
    assert!(matches!(execution, Execution::Abandoned), "{execution:?}");
    assert_eq!(open, 0);
}

impl Till {
    /// How many of this till's transactions are open and have nothing to do.
    async fn open_transactions(&self) -> i64 {
        let (_, name) = self.url.rsplit_once('=').unwrap();
        let open = "SELECT count(*) FROM pg_stat_activity
                    WHERE application_name = $1 AND state = 'idle in transaction'";
        let mut bystander = self.bystander().await;
        let open = sqlx::query_scalar(open).bind(name);
        open.fetch_one(&mut bystander).await.unwrap()
    }
}
