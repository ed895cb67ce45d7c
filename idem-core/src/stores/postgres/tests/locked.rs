//! Rows that somebody keeps locked: whoever tidies up leaves them to a later time.

use std::time::Instant;

use super::*;
use crate::{
    message::{SessionKey, SessionPlace},
    store::{
        OpenSession, Opened, OutOfPlace, SessionStore as _, StreamClaim, StreamStore as _, Touched,
        sequence::scene::{asks, with_an_exception, works},
    },
};

/// Locks these rows for as long as the connection lives.
async fn locked(database: &Database, rows: &str) -> PgConnection {
    let mut bystander = database.bystander().await;
    let lock = format!("BEGIN; SELECT FROM {rows} FOR UPDATE");
    run(&mut bystander, &lock).await;
    bystander
}

/// A session that has the answer to its request 0.
async fn answered(store: &PostgresStore, life: Duration, retention: Duration) -> SessionKey {
    let opening = OpenSession::new(Key::new("leases", "c-1").unwrap()).life(life);
    assert_eq!(store.open(&opening).await.unwrap(), Opened::New);
    let place = SessionPlace::new(opening.session.clone(), 0, 0);
    let request = ClaimRequest::in_session(place, &Policy::DEFAULT);
    let Claim::Acquired(lease) = store.claim(&request).await.unwrap() else {
        panic!("nobody has the number")
    };
    let outcome = Outcome::new("done");
    let written = store.complete(&lease, &outcome, retention).await;
    assert_eq!(written.unwrap(), Write::Applied);
    opening.session
}

#[tokio::test]
async fn an_ended_session_is_removed_without_an_answer_that_is_locked() {
    let database = Database::new();
    let store = database.store().await;
    answered(&store, MINUTE, 10 * MINUTE).await;
    store.advance(3 * MINUTE);
    let _bystander = locked(&database, "idem_records").await;
    assert_eq!(store.expire(10).await.unwrap(), 1);
    let left = "SELECT count(*) FROM idem_records";
    assert_eq!(database.number(left).await, 1);
}

#[tokio::test]
async fn an_ended_session_that_is_locked_is_removed_later() {
    let database = Database::new();
    let store = database.store().await;
    answered(&store, MINUTE, 10 * MINUTE).await;
    store.advance(3 * MINUTE);
    let mut bystander = locked(&database, "idem_records_sessions").await;
    assert_eq!(store.expire(10).await.unwrap(), 0);
    run(&mut bystander, "ROLLBACK").await;
    assert_eq!(store.expire(10).await.unwrap(), 1);
}

/// Its end comes into another hour, so its answers are kept for longer.
#[tokio::test]
async fn a_session_lives_on_while_one_of_its_answers_is_locked() {
    let database = Database::new();
    let store = database.store().await;
    let session = answered(&store, 120 * MINUTE, 150 * MINUTE).await;
    let _bystander = locked(&database, "idem_records").await;
    store.advance(60 * MINUTE);
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Living);
}

/// A session that waits would hold one of the server's connections, for as long as the row is locked.
#[tokio::test]
async fn a_stream_whose_row_is_locked_fails_and_leaves_no_session_waiting() {
    let database = Database::new();
    let store = database.store().await;
    let stream = Key::new("ledger", "postings").unwrap();
    let owner = Owner::new();
    let claim = store.claim_stream(&stream, owner, MINUTE).await.unwrap();
    let StreamClaim::Acquired { lease, .. } = claim else {
        panic!("nobody has the stream")
    };
    let mut bystander = locked(&database, "idem_records_streams").await;
    let begun = Instant::now();
    store
        .claim_stream(&stream, owner, MINUTE)
        .await
        .unwrap_err();
    store
        .extend_stream(&lease, Some(1), MINUTE)
        .await
        .unwrap_err();
    store.release_stream(&lease, Some(1)).await.unwrap_err();
    store.set_mark(&stream, Some(1)).await.unwrap_err();
    // A second each, and not the 10 s in which an answer is waited for.
    assert!(begun.elapsed() < MINUTE / 2, "{:?}", begun.elapsed());
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    assert_eq!(database.number(waiting).await, 0);
    run(&mut bystander, "ROLLBACK").await;
    let written = store.extend_stream(&lease, Some(1), MINUTE).await;
    assert_eq!(written.unwrap(), Write::Applied);
}

#[tokio::test]
async fn a_mark_passes_a_record_that_is_locked() {
    let database = Database::new();
    let store = database.store().await;
    for number in 0..4 {
        works(&store, number).await;
    }
    let bystander = locked(&database, "idem_records WHERE key = 'readings:d-1~1'").await;
    let ahead = OutOfPlace::Ahead { mark: 4, window: 8 };
    let claim = store.claim(&asks(20)).await.unwrap();
    assert_eq!(claim, Claim::OutOfPlace(ahead));
    let left = "SELECT count(*) FROM idem_records";
    assert_eq!(database.number(left).await, 1);
    drop(bystander);
    let copy = store.claim(&asks(1)).await.unwrap();
    assert!(matches!(copy, Claim::Completed { .. }), "{copy:?}");
}

/// Number 0 is at work, so the mark waits for it, and what is done above is kept for longer.
#[tokio::test]
async fn a_sequence_goes_on_while_one_of_its_records_is_locked() {
    let database = Database::new();
    let store = database.store().await;
    let begun = async |number| {
        let mut request = asks(number);
        request.retention = 10 * MINUTE;
        match store.claim(&request).await.unwrap() {
            Claim::Acquired(lease) => lease,
            other => panic!("{other:?}"),
        }
    };
    begun(0).await;
    for number in [1, 2] {
        complete(&store, &begun(number).await).await;
    }
    let forget_at = "SELECT max(extract(epoch FROM forget_at))::bigint FROM idem_records
                     WHERE key = 'readings:d-1~2'";
    let before = database.number(forget_at).await;
    let _bystander = locked(&database, "idem_records WHERE key = 'readings:d-1~1'").await;
    store.advance(2 * MINUTE);
    begun(4).await;
    let after = database.number(forget_at).await;
    assert!(after > before + 60, "{before}, {after}");
}

#[tokio::test]
async fn a_sequence_that_is_locked_is_purged_later() {
    let database = Database::new();
    let store = database.store().await;
    with_an_exception(&store).await;
    store.advance(2 * Policy::DEFAULT.retention());
    let bystander = locked(&database, "idem_records_sequences").await;
    while store.purge(100).await.unwrap() > 0 {}
    assert_eq!(
        database.number("SELECT count(*) FROM idem_records").await,
        0
    );
    drop(bystander);
    let mut removed = 0;
    for _ in 0..100 {
        removed += store.purge(100).await.unwrap();
        if removed == 2 {
            return;
        }
    }
    panic!("{removed} of an exception and a sequence");
}
