use std::io;

use idem_core::{Execution, ExecutionKind, StoreError};
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn worker(queues: &[&str]) -> (Arc<Vitals>, Health) {
    let vitals = Arc::new(Vitals::of(queues.iter().copied()));
    (Arc::clone(&vitals), Health::of(vitals))
}

type Ended = Execution<(), idem_core::Failed>;

fn away() -> Ended {
    let error = StoreError::unavailable(io::Error::other("gone"));
    Execution::StoreUnavailable { error }
}

fn unprotected() -> Ended {
    Ended::Unprotected {
        output: (),
        outcome: idem_core::Outcome::default(),
        attempt: 1,
    }
}

fn answered() -> Ended {
    Ended::Conflict { remaining: SECOND }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_failing_for_as_long_as_it_tries_to_start() {
    let (vitals, health) = worker(&["orders", "mails"]);
    assert_eq!(health.failing_for(), None);
    assert_eq!(health.to_string(), "not started");
    let _run = vitals.run();
    advance(3 * SECOND).await;
    assert_eq!(health.failing_for(), Some(3 * SECOND));
    assert!(!health.is_ready());
    vitals.connected(&"one:5672");
    vitals.consuming("orders");
    assert_eq!(health.to_string(), "not consuming mails for 3s");
    vitals.consuming("mails");
    assert_eq!(health.failing_for(), None);
    assert!(health.is_ready());
    assert_eq!(health.to_string(), "consuming orders, mails from one:5672");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_told_with_its_reason_and_heals() {
    let (vitals, health) = worker(&["orders"]);
    let _run = vitals.run();
    vitals.connected(&"one:5672");
    vitals.consuming("orders");
    advance(60 * SECOND).await;
    vitals.disconnected(Some("reset"));
    advance(2 * SECOND).await;
    vitals.disconnected(Some("refused"));
    assert_eq!(health.failing_for(), Some(2 * SECOND));
    assert_eq!(health.broker(), None);
    assert_eq!(health.queues(), [("orders".to_owned(), None)]);
    let told = health.to_string();
    assert_eq!(
        told,
        "no connection to the broker for 2s: refused; not consuming orders for 2s"
    );
    vitals.connected(&"two:5672");
    vitals.consuming("orders");
    advance(SECOND).await;
    assert_eq!(health.queues(), [("orders".to_owned(), Some(SECOND))]);
    assert!(health.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_store_is_away_until_an_execution_has_its_answer() {
    let (vitals, health) = worker(&[]);
    let _run = vitals.run();
    vitals.connected(&"one:5672");
    let _first = vitals.saw(&away(), None);
    advance(SECOND).await;
    let _second = vitals.saw(&away(), None);
    assert!(vitals.saw(&Ended::Abandoned, None).is_none());
    advance(SECOND).await;
    assert_eq!(health.failing_for(), Some(2 * SECOND));
    let told = "the store does not answer for 2s: the store is unavailable: gone";
    assert_eq!(health.to_string(), told);
    assert!(vitals.saw(&answered(), None).is_none());
    assert_eq!(health.failing_for(), None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_clients_alone_is_away_until_it_answers_anybody_or_nobody_asks() {
    let (vitals, health) = worker(&[]);
    let _run = vitals.run();
    vitals.connected(&"one:5672");
    assert_eq!(health.failing_for(), None);
    vitals.failed_client("gone".into());
    advance(SECOND).await;
    vitals.failed_client("still gone".into());
    let told = "the store does not answer for 1s: still gone";
    assert_eq!(health.to_string(), told);
    assert!(!health.is_ready());
    vitals.answered_client();
    assert_eq!(health.problems(), []);

    advance(60 * SECOND).await;
    vitals.failed_client("gone".into());
    advance(SECOND).await;
    // A message that waits as well is the same problem.
    let waiting = vitals.saw(&away(), None);
    advance(SECOND).await;
    assert_eq!(health.problems().len(), 1);
    assert_eq!(health.failing_for(), Some(2 * SECOND));
    assert!(vitals.saw(&answered(), None).is_none());
    assert_eq!(health.problems(), []);
    drop(waiting);

    advance(60 * SECOND).await;
    vitals.failed_client("gone".into());
    advance(299 * SECOND).await;
    assert_eq!(health.failing_for(), Some(299 * SECOND));
    advance(SECOND).await;
    assert_eq!(health.failing_for(), None);
    vitals.failed_client("gone".into());
    assert_eq!(health.failing_for(), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_was_told_to_stop_is_not_failing() {
    let (vitals, health) = worker(&["orders"]);
    let run = vitals.run();
    vitals.drain();
    advance(SECOND).await;
    assert_eq!((health.failing_for(), health.is_ready()), (None, false));
    drop(run);
    advance(SECOND).await;
    assert_eq!(health.failing_for(), None);
    assert_eq!(health.to_string(), "drained");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ended_by_itself_is_failing() {
    let (vitals, health) = worker(&["orders"]);
    drop(vitals.run());
    advance(SECOND).await;
    assert_eq!(health.failing_for(), Some(SECOND));
    assert_eq!(
        health.to_string(),
        "not running although nobody stopped it for 1s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_takes_no_messages_is_told_until_it_does_and_no_failure() {
    let (vitals, health) = worker(&[]);
    let _run = vitals.run();
    vitals.connected(&"one:5672");
    let one = vitals.blocked("low on memory");
    let other = vitals.blocked("low on memory");
    advance(SECOND).await;
    assert_eq!(
        health.to_string(),
        "the broker takes no messages for 1s: low on memory"
    );
    assert_eq!((health.failing_for(), health.is_ready()), (None, true));
    drop(one);
    assert_eq!(health.problems().len(), 1, "the other is blocked");
    drop(other);
    assert_eq!(health.problems(), []);
}

#[tokio::test(start_paused = true)]
async fn a_store_is_not_known_to_be_away_once_no_message_waits_for_it() {
    let (vitals, health) = worker(&[]);
    let _run = vitals.run();
    vitals.connected(&"one:5672");
    let (one, other) = (vitals.saw(&away(), None), vitals.saw(&away(), None));
    drop(one);
    advance(SECOND).await;
    assert_eq!(health.failing_for(), Some(SECOND));
    drop(other);
    assert_eq!((health.failing_for(), health.is_ready()), (None, true));
}

#[tokio::test(start_paused = true)]
async fn handlers_that_fail_open_are_told_and_no_failure() {
    let (vitals, health) = worker(&[]);
    let _run = vitals.run();
    vitals.connected(&"one:5672");
    assert!(vitals.saw(&unprotected(), None).is_none());
    advance(SECOND).await;
    assert_eq!(health.to_string(), "handlers run without the store for 1s");
    assert_eq!((health.failing_for(), health.is_ready()), (None, true));
    assert!(vitals.saw(&answered(), None).is_none());
    assert_eq!(health.problems(), []);
}

#[tokio::test(start_paused = true)]
async fn an_observed_message_that_failed_without_the_store_tells_of_no_recovery() {
    let (vitals, health) = worker(&[]);
    let _run = vitals.run();
    vitals.connected(&"one:5672");
    let _waiting = vitals.saw(&away(), None);
    advance(SECOND).await;
    let failed = answered();
    assert!(
        vitals
            .saw(&failed, Some(ExecutionKind::StoreUnavailable))
            .is_none()
    );
    assert!(health.failing_for().is_some(), "{health}");
}

#[tokio::test(start_paused = true)]
async fn letters_that_cannot_be_published_are_told_until_the_last_of_their_queue_is() {
    let (vitals, health) = worker(&["orders", "mails"]);
    let _run = vitals.run();
    vitals.connected(&"one:5672");
    vitals.consuming("orders");
    vitals.consuming("mails");
    let one = vitals.unpublished("orders", "no queue".into());
    let other = vitals.unpublished("orders", "no queue".into());
    advance(SECOND).await;
    let again = vitals.unpublished("orders", "full".into());
    drop((one, other));
    assert_eq!(
        health.to_string(),
        "retries, dead letters or replies of orders cannot be published for 1s: full"
    );
    assert_eq!((health.failing_for(), health.is_ready()), (None, false));
    drop(again);
    assert!(health.is_ready());
}
