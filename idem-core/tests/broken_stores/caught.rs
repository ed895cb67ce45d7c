//! Which case catches which flaw. Every case of the suite is here: none of them is idle.

use std::collections::BTreeSet;

use crate::{
    flaw::Flaw,
    harness::{cases, fails},
};

macro_rules! caught {
    ($($name:ident ($flaw:ident) { $($file:ident :: $case:ident)+ })+) => {
        mod a_store_that {
            use super::*;
            $(
                #[test]
                fn $name() {
                    fails_all(Flaw::$flaw, &[$(named(stringify!($file), stringify!($case))),+]);
                }
            )+
        }

        /// The names of all cases that catch something.
        fn catching() -> BTreeSet<String> {
            [$($(named(stringify!($file), stringify!($case))),+),+].into()
        }
    };
}

#[test]
fn every_case_catches_a_broken_store() {
    let all: BTreeSet<_> = cases().iter().map(|case| case.name().to_owned()).collect();
    let idle: Vec<_> = all.difference(&catching()).cloned().collect();
    assert!(idle.is_empty(), "these cases catch nothing: {idle:#?}");
}

#[test]
fn a_case_is_named_once() {
    let mut names: Vec<_> = cases()
        .iter()
        .map(idem_core::conformance::Case::name)
        .collect();
    names.sort_unstable();
    assert!(names.is_sorted_by(|a, b| a < b));
}

fn named(file: &str, case: &str) -> String {
    format!("{file}::{case}")
}

fn fails_all(flaw: Flaw, expected: &[String]) {
    let cases = cases();
    for name in expected {
        let case = cases.iter().find(|case| case.name() == name);
        let case = case.unwrap_or_else(|| panic!("there is no case `{name}`"));
        assert!(
            fails(case, flaw),
            "`{name}` does not notice a store that {flaw:?}"
        );
    }
}

caught! {
    calls_claimed_work_done (CallsClaimedWorkDone) {
        completion::work_that_was_only_claimed_is_never_a_duplicate
        claims::a_claimed_key_is_held_for_everybody_else
        claims::a_heartbeat_keeps_a_key_for_many_leases
        claims::a_lease_holds_until_its_end
        claims::a_lease_runs_down_on_the_clock_of_the_store
        replay::a_replay_is_held_while_a_worker_holds_the_key
    }
    calls_failed_work_done (CallsFailedWorkDone) {
        completion::work_that_failed_is_never_a_duplicate
    }
    repeats_the_completed (RepeatsTheCompleted) {
        owners::an_owner_that_completed_is_told_so
    }
    replays_the_completed (ReplaysTheCompleted) {
        completion::a_replay_of_completed_work_is_a_duplicate
    }
    claims_in_two_steps (ClaimsInTwoSteps) {
        concurrency::of_many_that_race_for_a_new_key_one_acquires_it
        concurrency::many_keys_at_once_go_to_one_worker_each
        atomic_claims::of_many_transactions_that_race_one_opens
        concurrency::a_completion_that_races_with_a_takeover_counts_or_is_fenced
        concurrency::of_many_that_race_for_a_failed_key_one_acquires_it
        concurrency::of_many_that_race_for_a_forgotten_key_one_acquires_it
        concurrency::of_many_that_race_for_an_expired_lease_one_takes_over
        concurrency::of_two_that_race_for_an_expired_lease_one_takes_over
    }
    never_takes_over (NeverTakesOver) {
        claims::a_lease_that_has_run_out_is_taken_over
        tokens::tokens_grow_over_a_takeover
    }
    holds_at_zero (HoldsAtZero) {
        claims::a_lease_that_has_run_out_is_taken_over
        owners::an_owner_that_was_taken_over_is_held_off
    }
    holds_off_its_owner (HoldsOffItsOwner) {
        owners::a_repeated_claim_gets_the_same_lease
        owners::a_repeated_claim_renews_the_lease
    }
    counts_repeats (CountsRepeats) {
        owners::a_repeated_claim_gets_the_same_lease
        atomic_claims::an_owner_may_begin_again
        attempts::an_extension_is_no_attempt
        concurrency::an_owner_that_races_with_itself_gets_one_lease
        owners::a_claim_that_was_dropped_midway_can_be_repeated
        owners::a_repeated_claim_is_as_much_in_doubt_as_before
        owners::a_repeated_claim_may_come_through_another_handle
        owners::an_owner_whose_lease_ran_out_unnoticed_has_its_key_again
        retention::a_repeated_claim_prolongs_the_record
    }
    repeat_shortens (RepeatShortens) {
        owners::a_repeated_claim_never_shortens_the_lease
    }
    acquires_after_release (AcquiresAfterRelease) {
        owners::an_owner_that_released_does_not_acquire_again
        owners::a_late_claim_does_not_block_the_next_owner
    }
    keeps_the_old_lease (KeepsTheOldLease) {
        claims::a_takeover_has_the_lease_that_it_asked_for
    }
    tokens_from_the_clock (TokensFromTheClock) {
        tokens::tokens_grow_even_if_the_clock_stands_still
        tokens::tokens_grow_over_a_whole_life
    }
    tokens_start_over (TokensStartOver) {
        purge::a_purged_key_is_new_and_its_token_grows
        tokens::tokens_grow_after_a_completion_is_forgotten
        purge::a_purge_that_races_with_claims_takes_nothing_from_the_winner
        tokens::tokens_grow_after_an_attempt_is_forgotten
    }
    completes_unfenced (CompletesUnfenced) {
        fencing::a_late_completion_does_not_end_the_successors_claim
        fencing::a_zombie_does_not_overwrite_a_completion
    }
    releases_unfenced (ReleasesUnfenced) {
        fencing::a_late_release_does_not_free_the_successors_claim
        transactions::a_zombies_rollback_frees_nothing
    }
    extends_unfenced (ExtendsUnfenced) {
        fencing::a_late_extension_does_not_touch_the_successors_lease
        fencing::a_lease_from_a_former_life_is_fenced
    }
    accepts_greater_tokens (AcceptsGreaterTokens) {
        fencing::a_write_with_a_token_never_given_is_fenced
    }
    extend_revives (ExtendRevives) {
        fencing::an_extension_does_not_revive_a_released_key
        concurrency::a_release_that_races_with_an_extension_is_not_undone
    }
    complete_revives (CompleteRevives) {
        fencing::a_completion_does_not_revive_a_released_key
    }
    releases_the_completed (ReleasesTheCompleted) {
        fencing::a_completed_key_is_neither_extended_nor_released
    }
    completion_expires (CompletionExpires) {
        fencing::a_lease_that_ran_out_unnoticed_may_complete
        claims::a_lease_of_zero_is_still_a_claim
        transactions::a_transaction_that_nobody_overtook_commits_late
    }
    extension_expires (ExtensionExpires) {
        fencing::a_lease_that_ran_out_unnoticed_may_be_extended
    }
    release_expires (ReleaseExpires) {
        fencing::a_lease_that_ran_out_unnoticed_may_be_released
    }
    extends_from_the_end (ExtendsFromTheEnd) {
        claims::an_extension_may_shorten_a_lease
        claims::an_extension_counts_from_now
    }
    applies_to_nothing (AppliesToNothing) {
        fencing::a_write_to_an_unknown_key_creates_nothing
        purge::a_purged_completion_is_not_repeated
        purge::a_purged_key_is_not_revived
    }
    fences_repeated_completions (FencesRepeatedCompletions) {
        completion::a_repeated_completion_is_applied_and_changes_nothing
        concurrency::completions_that_race_leave_one_outcome
    }
    overwrites_outcomes (OverwritesOutcomes) {
        completion::a_repeated_completion_is_applied_and_changes_nothing
    }
    fences_repeated_releases (FencesRepeatedReleases) {
        completion::a_repeated_release_is_applied_and_changes_nothing
        bytes::errors_of_any_text_are_accepted
        completion::a_repeated_abandonment_is_counted_once
    }
    releases_twice (ReleasesTwice) {
        completion::a_release_with_another_reason_is_fenced
    }
    forgets_completions (ForgetsCompletions) {
        completion::a_completed_key_answers_its_outcome
        claims::different_keys_are_independent
        concurrency::a_crowd_gets_its_work_done_once
    }
    forgets_attempts_on_takeover (ForgetsAttemptsOnTakeover) {
        attempts::a_vanished_attempt_is_counted_and_in_doubt
        fencing::a_zombie_does_not_end_what_the_successor_released
    }
    forgets_attempts_on_failure (ForgetsAttemptsOnFailure) {
        attempts::a_failed_attempt_is_counted_and_not_in_doubt
        attempts::a_claim_that_was_held_off_is_no_attempt
        fingerprints::a_claim_without_fingerprint_matches_any_content
        retention::the_last_claims_retention_counts
    }
    counts_abandoned (CountsAbandoned) {
        attempts::an_abandoned_claim_is_no_attempt
        atomic_claims::an_abandoned_transaction_is_no_attempt
    }
    counts_on_after_giving_up (CountsOnAfterGivingUp) {
        attempts::attempts_restart_after_giving_up
        attempts::giving_up_ends_the_doubt
    }
    counts_on_in_replay (CountsOnInReplay) {
        replay::a_replay_of_a_failed_key_starts_over
        replay::a_replay_runs_a_quarantined_key
        replay::a_replay_that_takes_over_starts_over
    }
    never_in_doubt (NeverInDoubt) {
        attempts::a_vanished_attempt_is_counted_and_in_doubt
        attempts::a_failure_ends_the_doubt
        attempts::attempts_are_counted_over_failures_and_takeovers
        completion::work_that_was_only_claimed_is_never_a_duplicate
    }
    always_in_doubt (AlwaysInDoubt) {
        claims::a_new_key_is_acquired_as_its_first_attempt
        fingerprints::content_is_forgotten_with_the_record
        retention::a_completion_is_forgotten_when_its_retention_ends
    }
    abandoning_ends_doubt (AbandoningEndsDoubt) {
        attempts::an_abandoned_claim_leaves_the_doubt
    }
    runs_the_quarantined (RunsTheQuarantined) {
        replay::a_quarantined_key_stops_all_copies
        atomic_claims::a_quarantined_key_opens_no_transaction
        replay::a_quarantine_ends_with_its_retention
        replay::a_replay_of_a_quarantined_key_may_carry_other_content
    }
    quarantines_for_ever (QuarantinesForEver) {
        replay::a_replay_runs_a_quarantined_key
        tokens::tokens_grow_over_a_release
    }
    retries_early (RetriesEarly) {
        retries::a_failed_key_is_held_until_its_retry_is_due
        atomic_claims::a_failed_transaction_holds_its_key_until_the_retry_is_due
    }
    counts_what_is_early (CountsWhatIsEarly) {
        retries::a_failed_key_is_held_until_its_retry_is_due
    }
    holds_other_content_before_the_retry (HoldsOtherContentBeforeTheRetry) {
        retries::other_content_is_refused_before_the_retry_is_due
    }
    delays_replays (DelaysReplays) {
        retries::a_replay_does_not_wait_for_the_retry
    }
    keeps_the_delay (KeepsTheDelay) {
        retries::a_replay_ends_the_delay
    }
    always_delays (AlwaysDelays) {
        retries::a_failure_without_a_delay_frees_its_key_at_once
    }
    delays_from_the_end (DelaysFromTheEnd) {
        retries::the_delay_counts_from_the_failure
    }
    repeated_failures_delay (RepeatedFailuresDelay) {
        retries::a_repeated_failure_does_not_put_off_the_retry
    }
    compares_delays (ComparesDelays) {
        retries::a_repeated_failure_does_not_put_off_the_retry
    }
    forgets_the_delayed (ForgetsTheDelayed) {
        retries::a_delay_outlives_the_retention
        purge::a_purge_leaves_a_key_that_waits_for_its_retry
    }
    drops_fingerprints (DropsFingerprints) {
        fingerprints::other_content_on_a_completed_key_is_key_reuse
        atomic_claims::other_content_opens_no_transaction
        fingerprints::other_content_may_take_over
    }
    cuts_fingerprints (CutsFingerprints) {
        fingerprints::the_same_content_is_a_duplicate
        fingerprints::an_abandoned_retry_keeps_the_content
        fingerprints::other_content_on_a_failed_key_is_key_reuse
    }
    compares_with_nothing (ComparesWithNothing) {
        fingerprints::a_key_without_fingerprint_matches_any_content
    }
    ignores_fingerprints (IgnoresFingerprints) {
        fingerprints::other_content_on_a_failed_key_is_key_reuse
        fingerprints::a_replay_with_other_content_on_a_failed_key_is_key_reuse
        fingerprints::key_reuse_does_not_prolong_the_memory
    }
    refuses_while_in_progress (RefusesWhileInProgress) {
        fingerprints::other_content_is_held_while_a_worker_holds_the_key
    }
    remembers_what_was_quarantined (RemembersWhatWasQuarantined) {
        replay::a_replay_without_fingerprint_drops_the_quarantined_content
    }
    remembers_what_was_given_up (RemembersWhatWasGivenUp) {
        fingerprints::other_content_runs_after_giving_up
        atomic_claims::a_transaction_that_was_given_up_starts_over
    }
    remembers_what_was_abandoned (RemembersWhatWasAbandoned) {
        fingerprints::the_content_of_an_abandoned_takeover_is_dropped
        fingerprints::other_content_runs_after_a_claim_was_abandoned
    }
    forgets_content (ForgetsContent) {
        fingerprints::a_claim_without_fingerprint_keeps_the_one_there_is
    }
    retention_in_millis (RetentionInMillis) {
        retention::a_completion_is_remembered_until_its_retention_ends
        completion::a_completed_key_answers_its_outcome
        completion::a_completion_outlives_its_lease
        retention::a_failure_is_forgotten_when_its_retention_ends
    }
    keeps_the_claims_retention (KeepsTheClaimsRetention) {
        retention::a_retention_of_years_is_kept
        retention::the_completions_retention_replaces_the_claims
        transactions::a_commit_is_remembered_for_its_retention
    }
    looking_prolongs (LookingProlongs) {
        completion::looking_at_a_completed_key_does_not_prolong_it
    }
    never_forgets_the_unfinished (NeverForgetsTheUnfinished) {
        retention::a_vanished_attempt_is_forgotten_when_its_retention_ends
        purge::a_purge_removes_what_the_retention_has_ended_for
        retention::a_claim_that_was_held_off_does_not_prolong_the_record
    }
    forgets_the_vanished (ForgetsTheVanished) {
        retention::a_vanished_attempt_is_remembered_after_its_lease
    }
    forgets_the_held (ForgetsTheHeld) {
        retention::a_lease_outlives_its_retention
    }
    extensions_are_no_writes (ExtensionsAreNoWrites) {
        retention::an_extension_prolongs_the_record
    }
    releases_are_no_writes (ReleasesAreNoWrites) {
        retention::a_release_prolongs_the_record
    }
    folds_case (FoldsCase) {
        bytes::keys_that_differ_in_case_or_spaces_are_kept_apart
    }
    one_record_per_scope (OneRecordPerScope) {
        claims::different_keys_are_independent
    }
    keys_in_ascii (KeysInAscii) {
        bytes::keys_that_look_alike_are_kept_apart
    }
    keys_as_file_names (KeysAsFileNames) {
        bytes::keys_of_odd_characters_are_kept_apart
    }
    cuts_keys (CutsKeys) {
        bytes::keys_of_the_greatest_length_are_kept_apart
        bytes::keys_that_were_shortened_are_kept_apart
    }
    outcomes_as_text (OutcomesAsText) {
        bytes::an_outcome_of_odd_bytes_is_remembered
        bytes::a_large_outcome_is_remembered
    }
    empty_is_unfinished (EmptyIsUnfinished) {
        bytes::an_empty_outcome_is_remembered
    }
    purges_too_many (PurgesTooMany) {
        purge::a_purge_removes_at_most_a_batch
    }
    purges_only_the_completed (PurgesOnlyTheCompleted) {
        purge::a_purge_removes_what_the_retention_has_ended_for
        purge::purges_that_race_share_the_work
    }
    purges_the_held (PurgesTheHeld) {
        purge::a_purge_leaves_a_key_that_is_held
    }
    purges_too_early (PurgesTooEarly) {
        purge::a_purge_leaves_what_is_remembered
    }
    loses_its_records (LosesItsRecords) {
        durability::a_completion_survives_a_restart
        durability::a_claim_survives_a_restart
        durability::attempts_survive_a_restart
        durability::a_delay_survives_a_restart
        durability::a_quarantine_survives_a_restart
    }
    loses_its_tokens (LosesItsTokens) {
        durability::tokens_grow_over_a_restart
    }
    effects_at_once (EffectsAtOnce) {
        transactions::a_rollback_leaves_neither_effect_nor_completion
        atomic_claims::transactions_of_different_keys_are_independent
        transactions::a_commit_shows_effect_and_completion_together
        transactions::a_transaction_that_was_dropped_leaves_nothing
    }
    commits_unfenced (CommitsUnfenced) {
        transactions::a_zombie_commits_nothing
    }
    loses_effects (LosesEffects) {
        transactions::a_commit_shows_effect_and_completion_together
        transactions::a_duplicate_during_the_commit_never_works
        atomic_claims::many_transactions_at_once_all_commit
        transactions::a_commit_after_a_swallowed_error_tells_the_truth
        transactions::an_open_transaction_can_be_extended
    }
    believes_the_handler (BelievesTheHandler) {
        transactions::a_transaction_that_the_handler_committed_is_refused
        transactions::a_transaction_that_the_handler_rolled_back_is_refused
    }
    rolls_back_its_record (RollsBackItsRecord) {
        atomic_claims::a_failed_transaction_is_an_attempt
        atomic_claims::a_failed_transaction_counts_for_leased_claims_too
        transactions::a_duplicate_is_told_nothing_that_rolls_back
    }
    calls_open_work_done (CallsOpenWorkDone) {
        atomic_claims::a_duplicate_while_a_transaction_is_open_is_held
    }
    lends_to_duplicates (LendsToDuplicates) {
        atomic_claims::a_duplicate_of_a_commit_opens_nothing
    }
}
