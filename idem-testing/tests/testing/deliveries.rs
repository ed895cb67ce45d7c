//! Messages, delivered without a fault.

use std::{future::pending, time::Duration};

use idem_core::{
    Attempt, Execution, Headers, Key, Policy, executor::ExecutionKind as Kind,
    handler::SequenceNumber,
};
use tokio::time::{Instant, sleep};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_message_is_executed_and_its_copy_is_a_duplicate() {
    let harness = charging();
    let first = harness.deliver(&order()).await;
    assert!(
        matches!(
            first,
            Execution::Executed {
                output: 1,
                attempt: 1,
                ..
            }
        ),
        "{first:?}"
    );
    let copy = harness.deliver(&order()).await;
    assert!(matches!(copy, Execution::Duplicate { .. }), "{copy:?}");
    assert_eq!(harness.state().read(), ["o-17"]);
}

#[idempotent(key = "order_id")]
async fn wait(_order: OrderPlaced, State(journal): State<Journal>) -> Result<(), Failed> {
    sleep(Duration::from_secs(5)).await;
    journal.write("waited");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_two_at_once_one_runs() {
    let harness = Setup::new(Journal::default).handler::<wait>();
    let [one, other] = harness.deliver_at_once(&order()).await;
    assert_eq!([one.kind(), other.kind()], [Kind::Executed, Kind::Conflict]);
    assert_eq!(harness.state().read(), ["waited"]);
}

#[idempotent(key = header("x-id"))]
async fn tell(
    _order: OrderPlaced,
    State(journal): State<Journal>,
    headers: Headers,
    key: Key,
) -> Result<(), Failed> {
    let tenant = headers.get("x-tenant").unwrap_or_default().into_owned();
    journal.write(format!("{key} {tenant}"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_message_has_its_headers() {
    let harness = Setup::new(Journal::default).handler::<tell>();
    let message = order().header("x-id", "7").header("x-tenant", "acme");
    assert_eq!(harness.deliver(&message).await.kind(), Kind::Executed);
    assert_eq!(harness.state().read(), ["idem-testing.tell:7 acme"]);
    assert_eq!(harness.deliver(&order()).await.kind(), Kind::Keyless);
    let undecodable = harness.deliver(&Message::bytes("[]")).await;
    assert_eq!(undecodable.kind(), Kind::Undecodable);
}

#[idempotent(key = message_id(), max_attempts = 3)]
async fn fail(_order: OrderPlaced, State(journal): State<Journal>) -> Result<(), Failed> {
    journal.write("failed");
    Err(Failed::retry_after(Duration::from_hours(1), "busy"))
}

#[tokio::test(start_paused = true)]
async fn a_failing_message_is_seen_through_until_its_attempts_are_used_up() {
    let (harness, began) = (
        Setup::new(Journal::default).handler::<fail>(),
        Instant::now(),
    );
    let ended = harness.deliver_until_done(&order().id("m-1")).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Exhausted, Some(3)));
    assert_eq!(began.elapsed(), Duration::from_hours(2));
    let replay = harness.deliver(&order().id("m-1").replayed()).await;
    assert_eq!((replay.kind(), replay.attempt()), (Kind::Failed, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_policy_takes_the_place_of_the_handlers_own() {
    let once = Policy::builder().max_attempts(1).build().unwrap();
    let harness = Setup::new(Journal::default).policy(once).handler::<fail>();
    let ended = harness.deliver(&order().id("m-1")).await;
    assert_eq!(ended.kind(), Kind::Exhausted);
}

#[derive(Serialize, Deserialize)]
struct Reading {
    device: String,
    number: u64,
}

#[idempotent(key = sequence(producer = "device", number = "number"))]
async fn read(_reading: Reading, State(journal): State<Journal>) -> Result<(), Failed> {
    journal.write("read");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn numbered_messages_keep_their_sequence() {
    let harness = Setup::new(Journal::default).handler::<read>();
    let reading = |number: u64| {
        assert!(number.digits().is_some());
        let device = "d-7".into();
        Message::json(&Reading { device, number })
    };
    for number in [0, 1, 1] {
        harness.deliver(&reading(number)).await;
    }
    let beyond = harness.deliver(&reading(5_000)).await;
    assert_eq!(beyond.kind(), Kind::Ahead);
    assert_eq!(harness.state().read(), ["read", "read"]);
}

#[idempotent(key = "order_id", lease = "1h")]
async fn hang(_order: OrderPlaced, _attempt: Attempt) -> Result<(), Failed> {
    pending().await
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_is_no_test_that_never_ends() {
    let harness = Setup::new(|| ()).handler::<hang>();
    let panic = panic_of(harness.deliver(&order())).await;
    assert!(panic.contains("did not end within 86400s"), "{panic}");
}

#[tokio::test]
async fn a_clock_that_is_not_paused_is_refused_with_what_to_write() {
    let panic = panic_of(async { Setup::new(|| ()) }).await;
    assert!(
        panic.contains("`#[tokio::test(start_paused = true)]`"),
        "{panic}"
    );
}
