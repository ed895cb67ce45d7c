//! What all that runs an interleaving beside a model has in common.

use std::{fmt::Debug, time::Duration};

use idem_core::{
    Key, StoreError,
    store::{Lease, Owner},
};
use proptest::{
    prelude::prop_assert,
    test_runner::{Config, TestCaseError},
};

/// In which the model counts time.
pub(crate) const UNIT: Duration = Duration::from_mins(1);

/// Which of the leases so far, counted back from the last one.
pub(crate) type Given = usize;

/// How many interleavings are tried; `PROPTEST_CASES` asks for another number.
pub(crate) fn config(cases: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok();
    Config {
        cases: asked.and_then(|asked| asked.parse().ok()).unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    }
}

/// One that no other interleaving has.
pub(crate) fn unique_key() -> Key {
    let unique = u128::from_be_bytes(*Owner::new().as_bytes());
    Key::new("model", unique).expect("it is short")
}

/// The lease that a write is tried with, if there has been any, and of what it is.
pub(crate) fn lease_of<T: Clone>(leases: &[(T, Lease)], given: Given) -> Option<(T, Lease)> {
    let last = leases.len().checked_sub(1)?;
    leases.get(last - given.min(last)).cloned()
}

/// Says at which call the two differ.
pub(crate) fn at<C: Debug>(
    step: usize,
    call: &C,
    compared: Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    compared.map_err(|error| TestCaseError::fail(format!("call {step}, {call:?}: {error}")))
}

#[allow(dead_code, reason = "the model of keys judges for itself")]
#[expect(
    clippy::needless_pass_by_value,
    reason = "both are made for the comparison"
)]
pub(crate) fn same<T: Debug + PartialEq>(expected: T, answer: T) -> Result<(), TestCaseError> {
    prop_assert!(
        expected == answer,
        "expected {expected:?}, the store answered {answer:?}"
    );
    Ok(())
}

pub(crate) fn known<T>(answer: Result<T, StoreError>) -> Result<T, TestCaseError> {
    answer.map_err(|error| TestCaseError::fail(format!("the store answered an error: {error:?}")))
}
