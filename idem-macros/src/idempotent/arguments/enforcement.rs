//! Whether a handler can run without its claim, if it is to.

use syn::Ident;

use super::{Arguments, Enforcement, StoreOutage};
use crate::{idempotent::signature::Signature, mistakes::Mistakes};

/// Looks for what keeps a handler from running beside its claim, or without one.
pub(super) fn check(arguments: &Arguments, signature: Option<&Signature>, mistakes: &mut Mistakes) {
    let is_atomic = signature.is_some_and(Signature::is_atomic);
    let is_numbered = arguments.sequence.is_some();
    if let Some(Enforcement(mode)) = &arguments.enforcement {
        if mode == "Observe" {
            observed(arguments, mode, is_atomic, is_numbered, mistakes);
        } else if mode == "Plain" {
            plain(arguments, mode, is_atomic, is_numbered, mistakes);
        }
    }
    let mut choices = arguments.choices.iter();
    if let Some(late) = choices.find(|it| it.name == "late" && it.variant == "Quarantine") {
        if arguments.is_plain() {
            mistakes.at(
                &late.variant,
                "a plain handler claims nothing, and knows no message: remove `late`",
            );
        }
        if arguments.recorded_by.is_some() {
            mistakes.at(
                &late.variant,
                "the table of `recorded_by` forgets nothing, so no message is too late for it: remove `late`",
            );
        }
        if is_numbered {
            mistakes.at(
                &late.variant,
                "a sequence knows by its mark what is done, whatever its age: remove `late`",
            );
        }
    }
    let mut choices = arguments.choices.iter();
    if let Some(keyless) = choices.find(|it| it.name == "keyless" && it.variant == "Run") {
        if is_atomic {
            mistakes.at(
                &keyless.variant,
                "an atomic handler commits its writes with its claim, and a message without a key has none: remove `keyless`, or take the connection from `State<…>`",
            );
        }
        if is_numbered {
            mistakes.at(
                &keyless.variant,
                "a message without a number has no place in its sequence: remove `keyless`",
            );
        }
    }
}

fn observed(
    arguments: &Arguments,
    mode: &Ident,
    is_atomic: bool,
    is_numbered: bool,
    mistakes: &mut Mistakes,
) {
    if is_atomic {
        mistakes.at(
            mode,
            "an atomic handler commits its writes with its claim, and never runs without one: to observe it, take the connection from `State<…>`, or remove `enforcement`",
        );
    }
    if is_numbered {
        mistakes.at(
            mode,
            "a number that runs beside its sequence would leave the others waiting: remove `enforcement`",
        );
    }
    no_store_outage(
        arguments,
        "a handler that is only observed runs without its store anyway: remove `store_outage`",
        mistakes,
    );
}

fn plain(
    arguments: &Arguments,
    mode: &Ident,
    is_atomic: bool,
    is_numbered: bool,
    mistakes: &mut Mistakes,
) {
    if is_atomic {
        mistakes.at(
            mode,
            "an atomic handler commits its writes with its claim, and a plain one has none: take the connection from `State<…>`, or remove `enforcement`",
        );
    }
    if is_numbered {
        mistakes.at(
            mode,
            "a number that runs beside its sequence would leave the others waiting: remove `enforcement`",
        );
    }
    no_store_outage(
        arguments,
        "a plain handler asks no store: remove `store_outage`",
        mistakes,
    );
}

fn no_store_outage(arguments: &Arguments, mistake: &str, mistakes: &mut Mistakes) {
    if let Some(StoreOutage(outage)) = &arguments.store_outage
        && outage == "FailOpen"
    {
        mistakes.at(outage, mistake);
    }
}
