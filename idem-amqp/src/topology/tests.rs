//! The arguments of what is declared: frozen.

use super::*;

/// `name=value`, in the order of names.
pub(super) fn shown(table: &FieldTable) -> String {
    let entries = table.inner().iter().map(|(name, value)| match value {
        AMQPValue::LongString(text) => format!("{name}={text}"),
        AMQPValue::LongLongInt(number) => format!("{name}={number}"),
        AMQPValue::Boolean(is_so) => format!("{name}={is_so}"),
        other => panic!("{other:?}"),
    });
    entries.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_arguments_of_declared_queues_stay_as_they_were_released() {
    let queue = Queue::quorum("q");
    assert_eq!(
        shown(&arguments(QueueType::Quorum, &queue)),
        "x-dead-letter-exchange= x-dead-letter-routing-key=q.dead \
         x-dead-letter-strategy=at-least-once x-delivery-limit=1000 x-overflow=reject-publish \
         x-queue-type=quorum"
    );
    assert_eq!(
        shown(&arguments(QueueType::Classic, &queue)),
        "x-dead-letter-exchange= x-dead-letter-routing-key=q.dead x-queue-type=classic"
    );
}

#[test]
fn a_queue_whose_dead_letters_go_to_an_exchange_is_told_so() {
    let told = |key: Option<&str>| {
        let queue = Queue::quorum("q").dead_letter_exchange("failed", key);
        shown(&arguments(QueueType::Classic, &queue))
    };
    assert_eq!(
        told(Some("q")),
        "x-dead-letter-exchange=failed x-dead-letter-routing-key=q x-queue-type=classic"
    );
    assert_eq!(
        told(None),
        "x-dead-letter-exchange=failed x-queue-type=classic"
    );
}

#[test]
fn the_arguments_of_dead_letter_queues_stay_as_they_were_released() {
    assert_eq!(
        shown(&dead_letter_arguments(QueueType::Quorum)),
        "x-delivery-limit=1000000000 x-queue-type=quorum"
    );
    assert_eq!(
        shown(&dead_letter_arguments(QueueType::Classic)),
        "x-queue-type=classic"
    );
}

#[test]
fn the_arguments_of_queues_of_registrations_stay_as_they_were_released() {
    assert_eq!(
        shown(&control_arguments(QueueType::Quorum)),
        "x-queue-type=quorum"
    );
    assert_eq!(
        shown(&control_arguments(QueueType::Classic)),
        "x-queue-type=classic"
    );
}

#[test]
fn a_queue_is_told_its_own_delays_only_where_it_keeps_them() {
    let (min, max) = (Duration::from_secs(1), Duration::from_mins(1));
    let native = Queue::quorum("q").native_retries(min, max);
    let told = shown(&arguments(QueueType::Quorum, &native));
    let delays = "x-delayed-retry-max=60000 x-delayed-retry-min=1000 x-delayed-retry-type=all ";
    let others = shown(&arguments(QueueType::Quorum, &Queue::quorum("q")));
    assert_eq!(told.replace(delays, ""), others);
    assert_ne!(told, others);
}

#[test]
fn a_queue_has_a_single_active_consumer_only_if_that_is_said_and_it_is_declared() {
    let told = |queue: &Queue| shown(&arguments(QueueType::Classic, queue));
    let single = told(&Queue::classic("q").single_active_consumer());
    let argument = "x-single-active-consumer=true";
    let others = told(&Queue::classic("q"));
    assert_eq!(single, format!("{others} {argument}"));
    for queue in [Queue::existing("q"), Queue::stream("q")] {
        assert!(!queue.single_active_consumer().is_single_active());
    }
}

#[test]
fn the_arguments_of_streams_stay_as_they_were_released() {
    let shown = |queue: Queue| shown(&queue.as_stream().expect("it is one").arguments());
    assert_eq!(shown(Queue::stream("s")), "x-queue-type=stream");
    let limited = Queue::stream("s")
        .max_age(Duration::from_hours(1))
        .max_bytes(1_000_000)
        .segment_bytes(5_000);
    assert_eq!(
        shown(limited),
        "x-max-age=3600s x-max-length-bytes=1000000 x-queue-type=stream \
         x-stream-max-segment-size-bytes=5000"
    );
}

#[test]
fn what_fails_in_a_stream_goes_to_queues_of_its_handlers_own() {
    let told = |queue: Queue| {
        let read = queue.read_by("orders.charge");
        let failures = read.failures().expect("it is a stream");
        let of = |queue: &Queue| queue.dead_letter_queue().map(str::to_owned);
        (failures.name().to_owned(), of(&read), of(&failures))
    };
    let dead = Some("ledger~orders.charge.dead".to_owned());
    assert_eq!(
        told(Queue::stream("ledger")),
        ("ledger~orders.charge".into(), dead.clone(), dead)
    );
    let own = Some("failed".to_owned());
    assert_eq!(
        told(Queue::stream("ledger").dead_letters("failed")),
        ("ledger~orders.charge".into(), own.clone(), own)
    );
    let named = Some("ledger.dead".to_owned());
    assert_eq!(
        told(Queue::stream("ledger").dead_letters("ledger.dead")),
        ("ledger~orders.charge".into(), named.clone(), named)
    );
    assert!(
        Queue::quorum("orders")
            .read_by("orders.charge")
            .failures()
            .is_none()
    );
}
