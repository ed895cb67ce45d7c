use std::io;

use idem_core::{
    Execution, StoreError,
    executor::ExecutionKind,
    store::outbox::{OutboxCounts, OutboxGlance},
};
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn worker(queues: &[&str]) -> (Arc<HealthState>, Health) {
    let state = Arc::new(HealthState::of(queues.iter().copied()));
    (Arc::clone(&state), Health::of(state))
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
    let (state, health) = worker(&["orders", "mails"]);
    assert_eq!(health.failing_for(), None);
    assert_eq!(health.to_string(), "not started");
    let _run = state.run();
    advance(3 * SECOND).await;
    assert_eq!(health.failing_for(), Some(3 * SECOND));
    assert!(!health.is_ready());
    state.connected(&"one:5672");
    state.consuming("orders");
    assert_eq!(health.to_string(), "not consuming mails for 3s");
    state.consuming("mails");
    assert_eq!(health.failing_for(), None);
    assert!(health.is_ready());
    assert_eq!(health.to_string(), "consuming orders, mails from one:5672");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_told_with_its_reason_and_heals() {
    let (state, health) = worker(&["orders"]);
    let _run = state.run();
    state.connected(&"one:5672");
    state.consuming("orders");
    advance(60 * SECOND).await;
    state.disconnected(Some("reset"));
    advance(2 * SECOND).await;
    state.disconnected(Some("refused"));
    assert_eq!(health.failing_for(), Some(2 * SECOND));
    assert_eq!(health.broker(), None);
    assert_eq!(health.queues(), [("orders".to_owned(), None)]);
    let told = health.to_string();
    assert_eq!(
        told,
        "no connection to the broker for 2s: refused; not consuming orders for 2s"
    );
    state.connected(&"two:5672");
    state.consuming("orders");
    advance(SECOND).await;
    assert_eq!(health.queues(), [("orders".to_owned(), Some(SECOND))]);
    assert!(health.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_store_is_away_until_an_execution_has_its_answer() {
    let (state, health) = worker(&[]);
    let _run = state.run();
    state.connected(&"one:5672");
    let _first = state.saw(&away(), None);
    advance(SECOND).await;
    let _second = state.saw(&away(), None);
    assert!(state.saw(&Ended::Abandoned, None).is_none());
    advance(SECOND).await;
    assert_eq!(health.failing_for(), Some(2 * SECOND));
    let told = "the store does not answer for 2s: the store is unavailable: gone";
    assert_eq!(health.to_string(), told);
    assert!(state.saw(&answered(), None).is_none());
    assert_eq!(health.failing_for(), None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_clients_alone_is_away_until_it_answers_anybody_or_nobody_asks() {
    let (state, health) = worker(&[]);
    let _run = state.run();
    state.connected(&"one:5672");
    assert_eq!(health.failing_for(), None);
    state.failed_client("gone".into());
    advance(SECOND).await;
    state.failed_client("still gone".into());
    let told = "the store does not answer for 1s: still gone";
    assert_eq!(health.to_string(), told);
    assert!(!health.is_ready());
    state.answered_client();
    assert_eq!(health.problems(), []);

    advance(60 * SECOND).await;
    state.failed_client("gone".into());
    advance(SECOND).await;
    // A message that waits as well is the same problem.
    let waiting = state.saw(&away(), None);
    advance(SECOND).await;
    assert_eq!(health.problems().len(), 1);
    assert_eq!(health.failing_for(), Some(2 * SECOND));
    assert!(state.saw(&answered(), None).is_none());
    assert_eq!(health.problems(), []);
    drop(waiting);

    advance(60 * SECOND).await;
    state.failed_client("gone".into());
    advance(299 * SECOND).await;
    assert_eq!(health.failing_for(), Some(299 * SECOND));
    advance(SECOND).await;
    assert_eq!(health.failing_for(), None);
    state.failed_client("gone".into());
    assert_eq!(health.failing_for(), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_was_told_to_stop_is_not_failing() {
    let (state, health) = worker(&["orders"]);
    let run = state.run();
    state.drain();
    advance(SECOND).await;
    assert_eq!((health.failing_for(), health.is_ready()), (None, false));
    drop(run);
    advance(SECOND).await;
    assert_eq!(health.failing_for(), None);
    assert_eq!(health.to_string(), "drained");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ended_by_itself_is_failing() {
    let (state, health) = worker(&["orders"]);
    drop(state.run());
    advance(SECOND).await;
    assert_eq!(health.failing_for(), Some(SECOND));
    assert_eq!(
        health.to_string(),
        "not running although nobody stopped it for 1s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_takes_no_messages_is_told_until_it_does_and_no_failure() {
    let (state, health) = worker(&[]);
    let _run = state.run();
    state.connected(&"one:5672");
    let one = state.blocked("low on memory");
    let other = state.blocked("low on memory");
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
    let (state, health) = worker(&[]);
    let _run = state.run();
    state.connected(&"one:5672");
    let (one, other) = (state.saw(&away(), None), state.saw(&away(), None));
    drop(one);
    advance(SECOND).await;
    assert_eq!(health.failing_for(), Some(SECOND));
    drop(other);
    assert_eq!((health.failing_for(), health.is_ready()), (None, true));
}

#[tokio::test(start_paused = true)]
async fn handlers_that_fail_open_are_told_and_no_failure() {
    let (state, health) = worker(&[]);
    let _run = state.run();
    state.connected(&"one:5672");
    assert!(state.saw(&unprotected(), None).is_none());
    advance(SECOND).await;
    assert_eq!(health.to_string(), "handlers run without the store for 1s");
    assert_eq!((health.failing_for(), health.is_ready()), (None, true));
    assert!(state.saw(&answered(), None).is_none());
    assert_eq!(health.problems(), []);
}

#[tokio::test(start_paused = true)]
async fn an_observed_message_that_failed_without_the_store_tells_of_no_recovery() {
    let (state, health) = worker(&[]);
    let _run = state.run();
    state.connected(&"one:5672");
    let _waiting = state.saw(&away(), None);
    advance(SECOND).await;
    let failed = answered();
    assert!(
        state
            .saw(&failed, Some(ExecutionKind::StoreUnavailable))
            .is_none()
    );
    assert!(health.failing_for().is_some(), "{health}");
}

#[tokio::test(start_paused = true)]
async fn letters_that_cannot_be_published_are_told_until_the_last_of_their_queue_is() {
    let (state, health) = worker(&["orders", "mails"]);
    let _run = state.run();
    state.connected(&"one:5672");
    state.consuming("orders");
    state.consuming("mails");
    let one = state.unpublished("orders", "no queue".into());
    let other = state.unpublished("orders", "no queue".into());
    advance(SECOND).await;
    let again = state.unpublished("orders", "full".into());
    drop((one, other));
    assert_eq!(
        health.to_string(),
        "retries, dead letters or replies of orders cannot be published for 1s: full"
    );
    assert_eq!((health.failing_for(), health.is_ready()), (None, false));
    drop(again);
    assert!(health.is_ready());
}

#[tokio::test(start_paused = true)]
async fn an_outbox_from_which_nothing_leaves_is_told_and_no_failure() {
    let (state, health) = worker(&[]);
    let _run = state.run();
    state.connected(&"one:5672");
    let holds = |dead, oldest| {
        let counts = OutboxCounts::new(1, 0, dead, oldest);
        state.outbox(Ok(OutboxGlance::new(counts, Duration::ZERO)));
    };
    holds(0, 299 * SECOND);
    assert_eq!(health.problems(), []);
    holds(0, 300 * SECOND);
    advance(SECOND).await;
    let told = health.to_string();
    assert_eq!(
        told,
        "messages of the outbox do not leave for 1s: the oldest waits for 5 min, `idem outbox list` shows it"
    );
    holds(2, SECOND);
    let [problem] = &health.problems()[..] else {
        panic!("{health}");
    };
    assert_eq!(problem.kind, ProblemKind::OutboxDead);
    assert!(problem.error.as_ref().unwrap().starts_with("2: "));
    state.outbox(Err("permission denied".into()));
    let kinds = |health: &Health| {
        let problems = health.problems().into_iter();
        problems.map(|one| one.kind).collect::<Vec<_>>()
    };
    let both = [ProblemKind::OutboxUnreadable, ProblemKind::OutboxDead];
    assert_eq!(kinds(&health), both);
    assert_eq!((health.failing_for(), health.is_ready()), (None, true));
    holds(0, SECOND);
    assert_eq!(health.problems(), []);
}
