//! The protocol broken on purpose: each flaw is noticed, by the property that forbids what it does.

use idem_protocol::{
    Flaw, Protocol, Setting,
    properties::{
        ACK_MEANS_COMMITTED, COMPLETED_ONCE, CONFIRMED, EFFECT_ONCE, ENDED_IS_ENDED, FENCED,
        IN_TIME, NOTHING_LOST, ONE_HOLDER, REPEATED_IN_DOUBT, SETTLED,
    },
};

use crate::{
    checked::catches,
    settings::{atomic, dropping, giving_up, leased, quarantined, single, small, with_two_keys},
};

#[test]
fn without_fencing_a_stale_write_takes_effect() {
    let protocol = Protocol::broken(small(&leased()), Flaw::NoFencing);
    catches(&protocol, FENCED);
}

#[test]
fn without_fencing_a_key_is_completed_twice() {
    let protocol = Protocol::broken(small(&leased()), Flaw::NoFencing);
    catches(&protocol, COMPLETED_ONCE);
}

#[test]
fn without_fencing_an_atomic_effect_happens_twice() {
    let protocol = Protocol::broken(small(&atomic()), Flaw::NoFencing);
    catches(&protocol, EFFECT_ONCE);
}

#[test]
fn a_lease_that_is_ignored_is_taken_over_too_early() {
    let protocol = Protocol::broken(small(&leased()), Flaw::LeaseIsIgnored);
    catches(&protocol, IN_TIME);
}

#[test]
fn a_takeover_that_keeps_the_token_makes_two_holders() {
    let protocol = Protocol::broken(small(&leased()), Flaw::TakeoverKeepsToken);
    catches(&protocol, ONE_HOLDER);
}

#[test]
fn a_takeover_without_doubt_repeats_an_effect_untold() {
    let protocol = Protocol::broken(small(&leased()), Flaw::TakeoverWithoutDoubt);
    catches(&protocol, REPEATED_IN_DOUBT);
}

#[test]
fn a_takeover_without_doubt_repeats_what_is_to_be_quarantined() {
    let protocol = Protocol::broken(small(&quarantined()), Flaw::TakeoverWithoutDoubt);
    catches(&protocol, EFFECT_ONCE);
}

#[test]
fn a_late_claim_of_an_ended_owner_must_not_acquire() {
    let protocol = Protocol::broken(small(&leased()), Flaw::EndedOwnerAcquires);
    catches(&protocol, ENDED_IS_ENDED);
}

#[test]
fn a_repeated_completion_must_not_be_refused() {
    for setting in [leased(), atomic()] {
        let protocol = Protocol::broken(small(&setting), Flaw::RepeatIsRefused);
        catches(&protocol, CONFIRMED);
    }
}

#[test]
fn an_ack_before_the_completion_loses_messages() {
    let protocol = Protocol::broken(small(&leased()), Flaw::AckBeforeCompletion);
    catches(&protocol, ACK_MEANS_COMMITTED);
    catches(&protocol, NOTHING_LOST);
}

#[test]
fn an_ack_before_the_dead_letter_loses_messages() {
    let protocol = Protocol::broken(small(&leased()), Flaw::AckBeforeDeadLetter);
    catches(&protocol, ACK_MEANS_COMMITTED);
    catches(&protocol, NOTHING_LOST);
}

#[test]
fn a_conflict_taken_for_a_duplicate_loses_messages() {
    let protocol = Protocol::broken(small(&leased()), Flaw::ConflictIsDuplicate);
    catches(&protocol, ACK_MEANS_COMMITTED);
    catches(&protocol, NOTHING_LOST);
}

#[test]
fn a_redelivery_that_is_dropped_for_its_own_lease_loses_messages() {
    let setting = dropping(&small(&single(&leased())));
    let protocol = Protocol::broken(setting, Flaw::RedeliveryIsDropped);
    catches(&protocol, NOTHING_LOST);
}

#[test]
fn a_copy_that_is_dropped_while_its_claim_is_under_way_loses_messages() {
    let setting = Setting {
        faults: 2,
        ..dropping(&small(&leased()))
    };
    let protocol = Protocol::broken(setting, Flaw::UnansweredIsDropped);
    catches(&protocol, NOTHING_LOST);
}

#[test]
fn a_failure_that_is_dropped_as_if_it_were_given_up_loses_messages() {
    let setting = giving_up(&small(&single(&leased())));
    let protocol = Protocol::broken(setting, Flaw::FailureIsDropped);
    catches(&protocol, ACK_MEANS_COMMITTED);
    catches(&protocol, NOTHING_LOST);
}

#[test]
fn what_is_in_doubt_and_dropped_is_lost() {
    let setting = giving_up(&small(&single(&quarantined())));
    let protocol = Protocol::broken(setting, Flaw::DoubtIsDropped);
    catches(&protocol, ACK_MEANS_COMMITTED);
    catches(&protocol, NOTHING_LOST);
}

#[test]
fn an_unknown_completion_that_is_released_repeats_an_effect_untold() {
    let protocol = Protocol::broken(small(&leased()), Flaw::ReleaseUnknownCompletion);
    catches(&protocol, REPEATED_IN_DOUBT);
}

#[test]
fn an_unknown_commit_that_is_trusted_loses_messages() {
    let protocol = Protocol::broken(small(&single(&atomic())), Flaw::TrustUnknownCommit);
    catches(&protocol, ACK_MEANS_COMMITTED);
    catches(&protocol, NOTHING_LOST);
}

#[test]
fn a_second_attempt_by_the_same_owner_is_never_settled() {
    let protocol = Protocol::broken(small(&leased()), Flaw::OwnerIsKept);
    catches(&protocol, SETTLED);
}

#[test]
fn a_verdict_on_a_new_channel_loses_messages() {
    let protocol = Protocol::broken(with_two_keys(&leased()), Flaw::VerdictOnNewChannel);
    catches(&protocol, ACK_MEANS_COMMITTED);
    catches(&protocol, NOTHING_LOST);
}
