//! Scopes and policies.

use std::time::Duration;

use idem_core::{
    Failed, Policy,
    handler::{
        Backoff, Enforcement, GivenUp, InDoubt, Keyless, Late, OnConflict, OnDuplicate, Operation,
        StoreOutage,
    },
    idempotent,
};

use crate::OrderPlaced;

#[idempotent(key = "order_id")]
async fn by_default(order: OrderPlaced) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

#[idempotent(
    key = "order_id",
    scope = "orders.charge",
    lease = "1m 30s",
    retention = "7d",
    timeout = "45s",
    max_attempts = 5,
    max_outcome = 1_000_000,
    backoff = "250ms..1h",
    in_doubt = "quarantine",
    store_outage = "fail_closed",
    enforcement = "observe"
)]
async fn all_given(order: OrderPlaced) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

#[idempotent(key = "order_id", backoff = "2s", in_doubt = retry)]
async fn some_given(order: OrderPlaced) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

#[test]
fn without_arguments_the_defaults_hold() {
    assert_eq!(by_default::SCOPE, "idem-macros.by_default");
    assert_eq!(by_default::POLICY, Policy::DEFAULT);
}

#[test]
fn arguments_are_the_policy() {
    let expected = Policy::builder()
        .lease(Duration::from_secs(90))
        .retention(Duration::from_hours(7 * 24))
        .timeout(Duration::from_secs(45))
        .max_attempts(5)
        .max_outcome(1_000_000)
        .backoff(Backoff::new(
            Duration::from_millis(250),
            Duration::from_hours(1),
        ))
        .in_doubt(InDoubt::Quarantine)
        .store_outage(StoreOutage::FailClosed)
        .enforcement(Enforcement::Observe)
        .build_const();
    assert_eq!(all_given::SCOPE, "orders.charge");
    assert_eq!(all_given::POLICY, expected);
}

#[test]
fn what_is_not_given_stays_at_its_default() {
    let two_seconds = Duration::from_secs(2);
    let expected = Policy::builder()
        .backoff(Backoff::new(two_seconds, two_seconds))
        .build_const();
    assert_eq!(some_given::POLICY, expected);
}

/// A handler for each line, whose one argument is to be this of the policy, and nothing else.
macro_rules! words {
    ($($handler:ident: $argument:ident = $word:tt is $value:expr;)+) => {
        $(
            #[idempotent(key = "order_id", $argument = $word)]
            async fn $handler(order: OrderPlaced) -> Result<(), Failed> {
                drop(order);
                Ok(())
            }
        )+

        #[test]
        fn each_word_is_its_variant() {
            $(
                let expected = Policy::builder().$argument($value).build_const();
                assert_eq!($handler::POLICY, expected, stringify!($argument = $word));
            )+
        }
    };
}

words! {
    rejected_is_kept: on_rejected = "dead-letter" is GivenUp::DeadLetter;
    rejected_is_dropped: on_rejected = "ack" is GivenUp::Ack;
    exhausted_is_kept: on_exhausted = "dead-letter" is GivenUp::DeadLetter;
    exhausted_is_dropped: on_exhausted = ack is GivenUp::Ack;
    duplicate_is_acknowledged: on_duplicate = "ack" is OnDuplicate::Ack;
    duplicate_is_kept: on_duplicate = "dead-letter" is OnDuplicate::DeadLetter;
    conflict_waits: on_conflict = "wait" is OnConflict::Wait;
    conflict_is_requeued: on_conflict = requeue is OnConflict::Requeue;
    conflict_is_kept: on_conflict = "dead-letter" is OnConflict::DeadLetter;
    conflict_is_dropped: on_conflict = "ack" is OnConflict::Ack;
    keyless_is_kept: keyless = "dead-letter" is Keyless::DeadLetter;
    keyless_runs: keyless = "run" is Keyless::Run;
    late_runs: late = "run" is Late::Run;
    late_is_quarantined: late = quarantine is Late::Quarantine;
    time_is_in_a_header: time_header = "x-made-at" is "x-made-at";
    doubt_is_retried: in_doubt = "retry" is InDoubt::Retry;
    doubt_is_quarantined: in_doubt = "quarantine" is InDoubt::Quarantine;
    outage_stops: store_outage = "fail_closed" is StoreOutage::FailClosed;
    outage_is_braved: store_outage = "fail_open" is StoreOutage::FailOpen;
}
