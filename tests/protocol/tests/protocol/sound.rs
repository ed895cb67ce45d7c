//! The protocol as it is.

use crate::{
    checked::exhaustively,
    settings::{atomic, leased, quarantined, single, with_three_faults, with_two_keys},
};

#[test]
fn leased_handlers_are_safe_and_always_settled() {
    exhaustively(leased());
}

#[test]
fn leased_handlers_are_safe_and_always_settled_with_three_faults() {
    exhaustively(with_three_faults(&leased()));
}

#[test]
fn a_single_copy_is_safe_and_always_settled() {
    exhaustively(single(&leased()));
    exhaustively(single(&atomic()));
}

#[test]
fn leased_handlers_of_two_keys_do_not_disturb_each_other() {
    exhaustively(with_two_keys(&leased()));
}

#[test]
fn quarantined_effects_happen_at_most_once() {
    exhaustively(quarantined());
}

#[test]
fn atomic_effects_happen_at_most_once() {
    exhaustively(atomic());
}

#[test]
fn atomic_effects_happen_at_most_once_with_three_faults() {
    exhaustively(with_three_faults(&atomic()));
}
