//! Handlers that run without a claim: plain ones, and those of messages without a key.

use std::{future::pending, time::Duration};

use idem_amqp::{
    BuildError, Failed, MemoryStore, Policy, RunError, SqliteStore, Worker,
    executor::ExecutionKind as Kind,
    handler::{Enforcement, Keyless, Operation},
    prelude::*,
    sqlx::SqliteConnection,
};
use idem_tests::{
    bed::{Bed, QUICK},
    interfered::{Call, Fate, Interfered},
    laddered::laddered,
    metered::Metered,
    running::assert_balance,
    script::{Order, Script, charge},
};

use crate::metrics::{HANDLER, assert_conserved};

/// No call of the store's is answered.
fn away() -> Interfered<MemoryStore> {
    Interfered::new(MemoryStore::new(), |_, _| Fate::Refuse)
}

/// A copy comes to a plain handler, and the store is away.
///
/// - does: runs it, as every message; asks no store, and stays ready
/// - effect: for each copy
#[tokio::test]
async fn a_plain_handler_runs_for_every_copy_without_the_store() {
    let (bed, store) = (Bed::new().await, away());
    let script = Script::succeeding();
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = bed.start(worker.consume_plain::<charge>(bed.queue().policy(QUICK)));
    for sent in 1..=3 {
        bed.order("a").await;
        worker.ended(Kind::Unclaimed, sent).await;
    }
    assert!(worker.health().is_ready(), "{}", worker.health());
    assert_balance(&worker.stop().await, [(Kind::Unclaimed, 3)]);
    assert_eq!(store.count(Call::Claim), 0);
    script.assert_effects(["a", "a", "a"]);
    bed.assert_nothing_stuck().await;
}

#[idempotent(
    enforcement = "plain",
    scope = "orders.log",
    max_attempts = 3,
    backoff = "100ms"
)]
async fn log(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// A plain handler fails, again and again or once and for all.
///
/// - does: attempts the message again after the backoff, and counts the attempts by what the message carries;
///   dead-letters it as `exhausted` or `rejected`
/// - effect: none
#[tokio::test]
async fn a_plain_handler_has_retries_and_dead_letters() {
    let bed = Bed::new().await;
    let script = Script::new(async |call| match call.id.as_str() {
        "bad" => Err(Failed::rejected("amount must be positive")),
        _ => Err(Failed::retry("the gateway timed out")),
    });
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let policy = <log as Operation>::POLICY;
    let worker = bed.start(worker.consume::<log>(bed.queue().policy(policy)));
    bed.order("unlucky").await;
    let letter = bed.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.attempt()),
        ("exhausted".into(), "3".into())
    );
    bed.order("bad").await;
    let letter = bed.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.attempt()),
        ("rejected".into(), "1".into())
    );
    worker.ended(Kind::Rejected, 1).await;
    let balance = worker.stop().await;
    let expected = [(Kind::Failed, 2), (Kind::Exhausted, 1), (Kind::Rejected, 1)];
    assert_balance(&balance, expected);
    assert_eq!(script.attempts(), [1, 2, 3, 1]);
    bed.assert_nothing_stuck().await;
}

/// An attempt of a plain handler takes longer than its `timeout`.
///
/// - does: drops the handler, attempts the message again; counts deliveries, outcomes, runs and settlements as of any
///   handler
/// - effect: for each attempt that was not dropped
#[tokio::test]
async fn a_plain_handler_has_a_timeout_and_metrics() {
    let (bed, metered) = (Bed::with_vhost().await, Metered::default());
    let script = Script::new(async |call| {
        if call.attempt == 1 {
            pending::<()>().await;
        }
        Ok(())
    });
    let policy = QUICK.to_builder().timeout(Duration::from_secs(1));
    let queue = laddered(bed.queue()).policy(policy.build().unwrap());
    bed.declare(&queue).await;
    let worker = {
        let _recorded = metered.record();
        let worker = Worker::builder(away()).state(script.clone());
        bed.start(worker.consume_plain::<charge>(queue))
    };
    bed.order("a").await;
    worker.ended(Kind::Unclaimed, 1).await;
    let settled = worker.settled.entries();
    assert_eq!(settled[0].error.as_deref(), Some("timed out after 1s"));
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Unclaimed, 1)]);
    assert_conserved(&metered, &balance);
    let runs = metered.sum("idem_handler_seconds_count", &[HANDLER]);
    let of_queue = [("queue", bed.name()), HANDLER];
    let ended = metered.sum("idem_delivery_seconds_count", &of_queue);
    assert_eq!((runs, ended), (2, 2));
    for settlement in ["retry", "ack"] {
        let counted = metered.sum("idem_settlements_total", &[("settlement", settlement)]);
        assert_eq!(counted, 1, "{settlement}");
    }
    assert_eq!(script.attempts(), [1, 2]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A message has no key, and the policy is to run it.
///
/// - does: runs it, and each copy; others are claimed as ever
/// - effect: for each copy without a key
#[tokio::test]
async fn a_message_without_a_key_runs_if_the_policy_says_so() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let policy = QUICK.to_builder().keyless(Keyless::Run).build().unwrap();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<charge>(bed.queue().policy(policy)));
    for id in ["", "", "a"] {
        bed.order(id).await;
    }
    worker.ended(Kind::Unclaimed, 2).await;
    worker.ended(Kind::Executed, 1).await;
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    let expected = [
        (Kind::Unclaimed, 2),
        (Kind::Executed, 1),
        (Kind::Duplicate, 1),
    ];
    assert_balance(&balance, expected);
    script.assert_effects(["", "", "a"]);
    bed.assert_nothing_stuck().await;
}

#[idempotent(key = "id", scope = "orders.atomic")]
async fn atomic(order: Order, _db: &mut SqliteConnection) -> Result<(), Failed> {
    unreachable!("{order:?}")
}

/// An atomic handler is to run without its claim.
///
/// - does: the worker does not start, and says what to do
/// - effect: none
#[tokio::test]
async fn an_atomic_handler_never_runs_without_its_claim() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::connect(folder.path().join("idem.db")).await;
    let store = store.unwrap();
    let keyless = Policy::builder().keyless(Keyless::Run).build().unwrap();
    let plain = Policy::builder()
        .enforcement(Enforcement::Plain)
        .build()
        .unwrap();
    for policy in [keyless, plain] {
        let queue = idem_amqp::Queue::quorum("orders").policy(policy);
        let worker = Worker::builder(store.clone()).consume::<atomic>(queue);
        let built = worker.build("amqp://127.0.0.1:1/%2f");
        assert!(
            matches!(built, Err(BuildError::AtomicUnclaimed { .. })),
            "{built:?}"
        );
    }
    let worker = Worker::builder(store).consume_plain::<atomic>("orders");
    let ran = worker.run_until("amqp://127.0.0.1:1/%2f", async {}).await;
    assert!(
        matches!(
            ran,
            Err(RunError::Build(BuildError::AtomicUnclaimed { .. }))
        ),
        "{ran:?}"
    );
}
