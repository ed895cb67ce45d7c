//! Requests of sessions: claimed at their place, and never run without the store.

use super::*;
use crate::{
    handler::{Context, DecodeError, Leased, Operation, Rejection, StoreOutage},
    message::{Envelope, KeyError, SessionKey, SessionNumber},
    store::{OpenSession, Purge as _, SessionStore as _},
    stores::MemoryStore,
};

/// Its body is a number, and so is its key.
struct Grant;

impl Operation for Grant {
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = Leased;
    const SCOPE: &'static str = "leases";

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(message: &u32, _: &Envelope) -> Result<Key, KeyError> {
        match message {
            0 => Err(KeyError::custom("0 has no key")),
            number => Key::new(Self::SCOPE, *number),
        }
    }
}

impl Handler<()> for Grant {
    fn call<'a>(
        message: u32,
        _: &'a Context<'a, ()>,
        (): (),
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        Ok(async move { Ok(message) })
    }
}

const FAIL_OPEN: Policy = Policy::builder()
    .store_outage(StoreOutage::FailOpen)
    .build_const();

fn request(body: &str, number: u64, awaited: u64, policy: &Policy) -> Prepared<Grant> {
    let id = "s-1".to_owned();
    let session = SessionNumber {
        id,
        number,
        awaited,
    };
    let envelope = Envelope::builder(body.to_owned()).session(session);
    Prepared::new(envelope.build(), policy).unwrap()
}

async fn open(store: &MemoryStore) {
    let session = SessionKey::new(Grant::SCOPE, "s-1").unwrap();
    store.open(&OpenSession::new(session)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_session_is_claimed_at_its_place_and_not_by_its_key() {
    let (executor, store) = executor();
    open(&store.elsewhere()).await;
    let run = async |body, number, awaited| {
        let mut message = request(body, number, awaited, &Policy::DEFAULT);
        executor.handle(&mut message, &()).await
    };
    assert_eq!(
        request("7", 3, 1, &Policy::DEFAULT).key().as_str(),
        "leases:s-1~3"
    );
    let first = run("0", 0, 0).await;
    // It needs no key of its own.
    assert_output(&first, 1, &0);
    let copy = run("0", 0, 0).await;
    assert_ended(&copy, "duplicate");
    let other = run("9", 0, 0).await;
    assert_ended(&other, "key-reused");
    let beyond = run("9", 5, 0).await;
    assert_ended(&beyond, "beyond-window");
    assert!(matches!(beyond, Execution::BeyondWindow { window: 5 }));
    run("9", 5, 1).await;
    let stale = run("0", 0, 0).await;
    assert_ended(&stale, "stale");
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_session_that_nobody_opened_does_not_run() {
    let (executor, _) = executor();
    let mut message = request("7", 0, 0, &Policy::DEFAULT);
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "session-expired");
}

#[tokio::test(start_paused = true)]
async fn a_session_without_an_id_is_no_key() {
    let session = SessionNumber {
        id: String::new(),
        number: 0,
        awaited: 0,
    };
    let envelope = Envelope::builder("7").session(session).build();
    let ended = Prepared::<Grant>::new(envelope, &Policy::DEFAULT).unwrap_err();
    assert_ended(&ended, "keyless");
}

/// Nobody else knows whether its session lives, and what its mark has passed.
#[tokio::test(start_paused = true)]
async fn a_request_of_a_session_does_not_run_without_the_store_whatever_the_policy() {
    let (executor, store) = executor();
    open(&store.elsewhere()).await;
    store.go_away();
    let mut message = request("7", 0, 0, &FAIL_OPEN);
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "store-unavailable");
    store.heal();
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "executed 1");
}

/// It is repeated until the store has taken it, and not handed to this process's memory.
#[tokio::test(start_paused = true)]
async fn the_completion_of_a_sessions_request_waits_for_the_store_whatever_the_policy() {
    let (executor, store) = executor();
    open(&store.elsewhere()).await;
    store.script(Call::Complete, [Fault::Unreached; 3]);
    let mut message = request("7", 0, 0, &FAIL_OPEN);
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "executed");
    assert_eq!(store.count(Call::Complete), 4);
    assert_eq!(executor.unprotected(), UnprotectedStats::default());
}

/// However short the handler's is: what is forgotten while its session lives would run again.
#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_a_day_at_least() {
    const HOUR: Duration = Duration::from_hours(1);
    let short = Policy::builder().retention(HOUR).build().unwrap();
    let (executor, store) = executor();
    let session = SessionKey::new(Grant::SCOPE, "s-1").unwrap();
    let opening = OpenSession::new(session).life(24 * HOUR);
    store.elsewhere().open(&opening).await.unwrap();
    executor.handle(&mut request("7", 0, 0, &short), &()).await;
    for _ in 0..5 {
        advance(23 * HOUR).await;
        store.elsewhere().purge(100).await.unwrap();
        let again = executor.handle(&mut request("7", 0, 0, &short), &()).await;
        assert_ended(&again, "duplicate");
    }
}
