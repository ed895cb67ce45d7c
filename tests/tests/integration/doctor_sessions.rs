//! What the doctor finds about queues of registrations, and what keeps a worker from starting.

use idem_amqp::{
    MemoryStore, Queue, RunError, Worker,
    error::TopologyProblem,
    session::Sessions,
    store::{Finding, Severity},
};
use idem_tests::{
    bed::{Bed, dead},
    script::Script,
    servers::off_thread,
    session::control,
    store_at::StoreAt,
};
use lapin::types::{AMQPValue, FieldTable};

use crate::{replies::quote, sessions::building};

/// A queue that somebody else has declared, without its queue of registrations.
async fn foreign() -> Bed {
    let bed = Bed::bare().await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
    let quorum = table([
        ("x-queue-type", text("quorum")),
        ("x-dead-letter-exchange", text("")),
        ("x-delivery-limit", AMQPValue::LongLongInt(20)),
    ]);
    bed.declare_foreign(bed.name(), quorum).await;
    bed.also(&control(bed.name()));
    bed
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn table<const N: usize>(values: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in values {
        table.insert(name.into(), value);
    }
    table
}

async fn doctor(url: &str, queue: Queue) -> Vec<Finding> {
    let folder = tempfile::tempdir().unwrap();
    let store = StoreAt::sqlite(&folder.path().join("keys.db"));
    let store = store.open_sqlite().await;
    let worker = Worker::builder(store).state(Script::succeeding());
    let worker = worker.consume_in_sessions::<quote>(queue, Sessions::default());
    worker.build(url).unwrap().doctor().await
}

fn codes(findings: &[Finding]) -> Vec<(Severity, &str)> {
    let codes = findings.iter();
    codes
        .map(|finding| (finding.severity, finding.code))
        .collect()
}

async fn why_not(bed: &Bed, queue: Queue) -> RunError {
    let script = Script::succeeding();
    let worker = building(MemoryStore::new(), &script, Sessions::default(), queue);
    bed.start(worker).failed().await
}

/// The existing queue of registrations is missing, hidden, deleted when unused, or drops what is too much.
///
/// - does: says so; starts where it can be consumed
#[tokio::test]
async fn an_existing_queue_of_registrations_is_looked_at_too() {
    let bed = foreign().await;
    let existing = || Queue::existing(bed.name());
    let control = control(bed.name());
    let missing = doctor(bed.url(), existing()).await;
    assert_eq!(codes(&missing), [(Severity::Error, "missing")]);
    assert!(missing[0].text.contains(&control), "{missing:?}");
    assert_eq!(missing[0].subject.as_deref(), Some(bed.name()));
    assert_eq!(bed.waiting(&control).await, None, "it was declared");

    bed.declare_foreign(&control, FieldTable::default()).await;
    assert_eq!(doctor(bed.url(), existing()).await, []);
    bed.delete(&control).await;

    let bounded = table([
        ("x-max-length", AMQPValue::LongLongInt(10)),
        ("x-expires", AMQPValue::LongLongInt(3_600_000)),
    ]);
    bed.declare_foreign(&control, bounded).await;
    let found = doctor(bed.url(), existing()).await;
    let expected = [
        (Severity::Warning, "expires"),
        (Severity::Warning, "max-length"),
    ];
    assert_eq!(codes(&found), expected, "{found:?}");
    assert!(found[0].text.contains(&control), "{found:?}");
    let accepted = existing().accept("expires").accept("max-length");
    let found = doctor(bed.url(), accepted).await;
    let expected = [(Severity::Note, "expires"), (Severity::Note, "max-length")];
    assert_eq!(codes(&found), expected);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `doctor_sessions::an_existing_queue_of_registrations_is_looked_at_too`.
#[tokio::test]
async fn a_queue_of_registrations_that_may_not_be_looked_at_is_said_to_be_hidden() {
    let bed = foreign().await;
    bed.declare_foreign(&control(bed.name()), FieldTable::default())
        .await;
    let (broker, user) = (bed.broker().clone(), bed.name().to_owned());
    off_thread(move || {
        let its_own = format!(r"^{user}(\.dead)?$");
        broker.rabbitmqctl(["add_user", &user, "secret"])?;
        broker.rabbitmqctl(["set_permissions", &user, &its_own, ".*", ".*"])
    })
    .await;
    let own = format!("{}:secret", bed.name());
    let url = bed.url().replace("guest:guest", &own);
    let found = doctor(&url, Queue::existing(bed.name())).await;
    assert_eq!(codes(&found), [(Severity::Note, "hidden")]);
    assert!(found[0].text.contains(&control(bed.name())), "{found:?}");
    bed.assert_nothing_stuck().await;
}

/// The queue of registrations is a stream, or differs from what the worker declares.
///
/// - does: does not start
#[tokio::test]
async fn a_stream_for_registrations_keeps_a_worker_from_starting() {
    let bed = foreign().await;
    let stream = table([("x-queue-type", text("stream"))]);
    bed.declare_foreign(&control(bed.name()), stream).await;
    match why_not(&bed, Queue::existing(bed.name())).await {
        RunError::Unfit { findings } => {
            assert!(codes(&findings).contains(&(Severity::Error, "stream")));
            assert!(findings[0].text.contains(&control(bed.name())));
        }
        other => panic!("{other:?}"),
    }
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `doctor_sessions::a_stream_for_registrations_keeps_a_worker_from_starting`.
#[tokio::test]
async fn a_queue_of_registrations_with_other_arguments_keeps_a_worker_from_starting() {
    let bed = Bed::bare().await;
    let control = control(bed.name());
    bed.also(&control);
    let aged = table([
        ("x-queue-type", text("quorum")),
        ("x-message-ttl", AMQPValue::LongLongInt(1000)),
    ]);
    bed.declare_foreign(&control, aged).await;
    match why_not(&bed, bed.queue()).await {
        RunError::Topology(error) => {
            assert_eq!(error.name(), control);
            let differs = matches!(error.problem(), TopologyProblem::Different { .. });
            assert!(differs, "{error:?}");
        }
        other => panic!("{other:?}"),
    }
}
