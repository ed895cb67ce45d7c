//! The protocol as it is.

use idem_protocol::Setting;

use crate::{
    checked::exhaustively,
    settings::{
        atomic, dropping, finding_done, giving_up, leased, quarantined, single, with_three_faults,
        with_two_keys,
    },
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
fn copies_that_are_dropped_lose_no_message() {
    for setting in [leased(), atomic()] {
        let two_workers = Setting {
            workers: 2,
            ..dropping(&setting)
        };
        exhaustively(two_workers);
    }
}

#[test]
fn what_is_given_up_is_dropped_on_purpose_and_nothing_else_is_lost() {
    for setting in [leased(), atomic(), quarantined()] {
        let two_workers = Setting {
            workers: 2,
            ..giving_up(&setting)
        };
        exhaustively(two_workers);
    }
}

#[test]
fn quarantined_effects_happen_at_most_once() {
    exhaustively(quarantined());
}

#[test]
fn leased_effects_that_their_handlers_find_happen_at_most_once() {
    exhaustively(finding_done(&leased()));
}

#[test]
fn atomic_effects_happen_at_most_once() {
    exhaustively(atomic());
}

#[test]
fn atomic_effects_happen_at_most_once_with_three_faults() {
    exhaustively(with_three_faults(&atomic()));
}
