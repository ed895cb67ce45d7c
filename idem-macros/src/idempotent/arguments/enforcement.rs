//! Whether a handler can be observed, if it is to be.

use super::{Arguments, Enforcement, StoreOutage};
use crate::{idempotent::signature::Signature, mistakes::Mistakes};

/// Looks for what keeps a handler from running beside its claim.
pub(super) fn check(arguments: &Arguments, signature: Option<&Signature>, mistakes: &mut Mistakes) {
    let Some(Enforcement(mode)) = &arguments.enforcement else {
        return;
    };
    if mode != "Observe" {
        return;
    }
    if signature.is_some_and(Signature::is_atomic) {
        mistakes.at(
            mode,
            "an atomic handler commits its writes with its claim, and never runs without one: to observe it, take the connection from `State<…>`, or remove `mode`",
        );
    }
    if arguments.sequence.is_some() {
        mistakes.at(
            mode,
            "a number that runs beside its sequence would leave the others waiting: remove `mode`",
        );
    }
    if let Some(StoreOutage(outage)) = &arguments.store_outage
        && outage == "FailOpen"
    {
        mistakes.at(
            outage,
            "a handler that is only observed runs without its store anyway: remove `store_outage`",
        );
    }
}
