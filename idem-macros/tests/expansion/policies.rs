//! Scopes and policies.

use std::time::Duration;

use idem_core::{
    Failed, Policy,
    handler::{Backoff, Enforcement, InDoubt, Operation, StoreOutage},
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
    mode = "observe"
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
