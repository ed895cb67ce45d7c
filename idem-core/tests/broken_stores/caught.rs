//! Which case catches which flaw. Every case of the suite is here: none of them is idle.

use std::collections::BTreeSet;

use idem_testing::conformance::Case;

use crate::{
    flaw::Flaw,
    harness::{Flawed, cases, cases_of_servers, fails},
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
    let mut all: BTreeSet<_> = cases().iter().map(|case| case.name().to_owned()).collect();
    all.extend(cases_of_servers().iter().map(|case| case.name().to_owned()));
    let idle: Vec<_> = all.difference(&catching()).cloned().collect();
    assert!(idle.is_empty(), "these cases catch nothing: {idle:#?}");
}

#[test]
fn a_case_is_named_once() {
    let mut names: Vec<_> = cases()
        .iter()
        .map(idem_testing::conformance::Case::name)
        .collect();
    names.sort_unstable();
    assert!(names.is_sorted_by(|a, b| a < b));
}

fn named(file: &str, case: &str) -> String {
    format!("{file}::{case}")
}

/// How often a case is tried. What races depends on how threads are run, and a flaw may slip
/// through one time.
fn times(case: &str) -> usize {
    let races = [
        "concurrency::",
        "session_races::",
        "streams::of_many",
        "sequence_races::",
        "operator_fences::",
    ];
    if races.iter().any(|file| case.starts_with(file)) {
        20
    } else {
        1
    }
}

fn fails_all(flaw: Flaw, expected: &[String]) {
    let (cases, of_servers) = (cases(), cases_of_servers());
    for name in expected {
        let noticed = notices(&cases, name, flaw).or_else(|| notices(&of_servers, name, flaw));
        assert!(
            noticed.unwrap_or_else(|| panic!("there is no case `{name}`")),
            "`{name}` does not notice a store that {flaw:?}"
        );
    }
}

/// Whether the case of this name fails, if it is among these.
fn notices<H: Flawed>(cases: &[Case<H>], name: &str, flaw: Flaw) -> Option<bool> {
    let case = cases.iter().find(|case| case.name() == name)?;
    Some((0..times(name)).any(|_| fails(case, flaw)))
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
    calls_failed_work_done (CallsFailedWorkDone) { completion::work_that_failed_is_never_a_duplicate }
    repeats_the_completed (RepeatsTheCompleted) { owners::an_owner_that_completed_is_told_so }
    replays_the_completed (ReplaysTheCompleted) { completion::a_replay_of_completed_work_is_a_duplicate }
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
    always_takes_over (AlwaysTakesOver) {
        claims::a_claim_that_takes_nothing_over_leaves_a_lease_that_has_run_out
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
    repeat_shortens (RepeatShortens) { owners::a_repeated_claim_never_shortens_the_lease }
    acquires_after_release (AcquiresAfterRelease) {
        owners::an_owner_that_released_does_not_acquire_again
        owners::a_late_claim_does_not_block_the_next_owner
    }
    keeps_the_old_lease (KeepsTheOldLease) { claims::a_takeover_has_the_lease_that_it_asked_for }
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
    accepts_greater_tokens (AcceptsGreaterTokens) { fencing::a_write_with_a_token_never_given_is_fenced }
    extend_revives (ExtendRevives) {
        fencing::an_extension_does_not_revive_a_released_key
        concurrency::a_release_that_races_with_an_extension_is_not_undone
    }
    complete_revives (CompleteRevives) { fencing::a_completion_does_not_revive_a_released_key }
    releases_the_completed (ReleasesTheCompleted) { fencing::a_completed_key_is_neither_extended_nor_released }
    completion_expires (CompletionExpires) {
        fencing::a_lease_that_ran_out_unnoticed_may_complete
        claims::a_lease_of_zero_is_still_a_claim
        transactions::a_transaction_that_nobody_overtook_commits_late
    }
    extension_expires (ExtensionExpires) { fencing::a_lease_that_ran_out_unnoticed_may_be_extended }
    release_expires (ReleaseExpires) { fencing::a_lease_that_ran_out_unnoticed_may_be_released }
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
    overwrites_outcomes (OverwritesOutcomes) { completion::a_repeated_completion_is_applied_and_changes_nothing }
    fences_repeated_releases (FencesRepeatedReleases) {
        completion::a_repeated_release_is_applied_and_changes_nothing
        bytes::errors_of_any_text_are_accepted
        completion::a_repeated_abandonment_is_counted_once
    }
    releases_twice (ReleasesTwice) { completion::a_release_with_another_reason_is_fenced }
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
    abandoning_ends_doubt (AbandoningEndsDoubt) { attempts::an_abandoned_claim_leaves_the_doubt }
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
    counts_what_is_early (CountsWhatIsEarly) { retries::a_failed_key_is_held_until_its_retry_is_due }
    holds_other_content_before_the_retry (HoldsOtherContentBeforeTheRetry) { retries::other_content_is_refused_before_the_retry_is_due }
    delays_replays (DelaysReplays) { retries::a_replay_does_not_wait_for_the_retry }
    keeps_the_delay (KeepsTheDelay) { retries::a_replay_ends_the_delay }
    always_delays (AlwaysDelays) { retries::a_failure_without_a_delay_frees_its_key_at_once }
    delays_from_the_end (DelaysFromTheEnd) { retries::the_delay_counts_from_the_failure }
    repeated_failures_delay (RepeatedFailuresDelay) { retries::a_repeated_failure_does_not_put_off_the_retry }
    compares_delays (ComparesDelays) { retries::a_repeated_failure_does_not_put_off_the_retry }
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
    compares_with_nothing (ComparesWithNothing) { fingerprints::a_key_without_fingerprint_matches_any_content }
    ignores_fingerprints (IgnoresFingerprints) {
        fingerprints::other_content_on_a_failed_key_is_key_reuse
        fingerprints::a_replay_with_other_content_on_a_failed_key_is_key_reuse
        fingerprints::key_reuse_does_not_prolong_the_memory
    }
    refuses_while_in_progress (RefusesWhileInProgress) { fingerprints::other_content_is_held_while_a_worker_holds_the_key }
    remembers_what_was_quarantined (RemembersWhatWasQuarantined) { replay::a_replay_without_fingerprint_drops_the_quarantined_content }
    remembers_what_was_given_up (RemembersWhatWasGivenUp) {
        fingerprints::other_content_runs_after_giving_up
        atomic_claims::a_transaction_that_was_given_up_starts_over
    }
    remembers_what_was_abandoned (RemembersWhatWasAbandoned) {
        fingerprints::the_content_of_an_abandoned_takeover_is_dropped
        fingerprints::other_content_runs_after_a_claim_was_abandoned
    }
    forgets_content (ForgetsContent) { fingerprints::a_claim_without_fingerprint_keeps_the_one_there_is }
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
    looking_prolongs (LookingProlongs) { completion::looking_at_a_completed_key_does_not_prolong_it }
    never_forgets_the_unfinished (NeverForgetsTheUnfinished) {
        retention::a_vanished_attempt_is_forgotten_when_its_retention_ends
        purge::a_purge_removes_what_the_retention_has_ended_for
        retention::a_claim_that_was_held_off_does_not_prolong_the_record
    }
    forgets_the_vanished (ForgetsTheVanished) { retention::a_vanished_attempt_is_remembered_after_its_lease }
    forgets_the_held (ForgetsTheHeld) { retention::a_lease_outlives_its_retention }
    extensions_are_no_writes (ExtensionsAreNoWrites) { retention::an_extension_prolongs_the_record }
    releases_are_no_writes (ReleasesAreNoWrites) { retention::a_release_prolongs_the_record }
    folds_case (FoldsCase) { bytes::keys_that_differ_in_case_or_spaces_are_kept_apart }
    one_record_per_scope (OneRecordPerScope) { claims::different_keys_are_independent }
    keys_in_ascii (KeysInAscii) { bytes::keys_that_look_alike_are_kept_apart }
    keys_as_file_names (KeysAsFileNames) { bytes::keys_of_odd_characters_are_kept_apart }
    cuts_keys (CutsKeys) {
        bytes::keys_of_the_greatest_length_are_kept_apart
        bytes::keys_that_were_shortened_are_kept_apart
    }
    outcomes_as_text (OutcomesAsText) {
        bytes::an_outcome_of_odd_bytes_is_remembered
        bytes::a_large_outcome_is_remembered
    }
    empty_is_unfinished (EmptyIsUnfinished) { bytes::an_empty_outcome_is_remembered }
    purges_too_many (PurgesTooMany) { purge::a_purge_removes_at_most_a_batch }
    purges_only_the_completed (PurgesOnlyTheCompleted) {
        purge::a_purge_removes_what_the_retention_has_ended_for
        purge::purges_that_race_share_the_work
    }
    purges_the_held (PurgesTheHeld) { purge::a_purge_leaves_a_key_that_is_held }
    purges_too_early (PurgesTooEarly) { purge::a_purge_leaves_what_is_remembered }
    loses_its_records (LosesItsRecords) {
        durability::a_completion_survives_a_restart
        durability::a_claim_survives_a_restart
        durability::attempts_survive_a_restart
        durability::a_delay_survives_a_restart
        durability::a_quarantine_survives_a_restart
    }
    loses_its_tokens (LosesItsTokens) { durability::tokens_grow_over_a_restart }
    effects_at_once (EffectsAtOnce) {
        transactions::a_rollback_leaves_neither_effect_nor_completion
        atomic_claims::transactions_of_different_keys_are_independent
        transactions::a_commit_shows_effect_and_completion_together
        transactions::a_transaction_that_was_dropped_leaves_nothing
    }
    commits_unfenced (CommitsUnfenced) { transactions::a_zombie_commits_nothing }
    loses_effects (LosesEffects) {
        look_transactions::a_completion_is_shown_with_its_commit
        transactions::a_commit_shows_effect_and_completion_together
        transactions::a_duplicate_during_the_commit_never_works
        atomic_claims::many_transactions_at_once_all_commit
        transactions::a_commit_after_a_swallowed_error_tells_the_truth
        transactions::an_open_transaction_can_be_extended
    }
    believes_the_handler (BelievesTheHandler) {
        look_transactions::what_is_committed_in_vain_is_not_shown
        transactions::a_transaction_that_the_handler_committed_is_refused
        transactions::a_transaction_that_the_handler_rolled_back_is_refused
    }
    rolls_back_its_record (RollsBackItsRecord) {
        atomic_claims::a_failed_transaction_is_an_attempt
        atomic_claims::a_failed_transaction_counts_for_leased_claims_too
        transactions::a_duplicate_is_told_nothing_that_rolls_back
    }
    calls_open_work_done (CallsOpenWorkDone) { atomic_claims::a_duplicate_while_a_transaction_is_open_is_held }
    lends_to_duplicates (LendsToDuplicates) { atomic_claims::a_duplicate_of_a_commit_opens_nothing }
    ignores_sessions (IgnoresSessions) {
        positions::a_store_that_keeps_sessions_runs_nothing_of_an_unknown_one
        sessions::a_request_of_an_unknown_session_never_runs
    }
    denies_sessions (DeniesSessions) { sessions::a_request_of_a_living_session_is_acquired }
    refuses_sessions (RefusesSessions) { sessions::a_request_of_a_living_session_is_acquired }
    runs_without_a_session (RunsWithoutASession) {
        positions::a_store_that_keeps_sessions_runs_nothing_of_an_unknown_one
        sessions::a_request_of_an_unknown_session_never_runs
        session_lives::a_session_that_is_gone_runs_nothing
        session_races::claims_that_race_with_the_removal_never_run
    }
    forgets_completions_in_sessions (ForgetsCompletions) { sessions::an_answer_is_repeated }
    one_session_for_all (OneSessionForAll) { sessions::sessions_are_independent }
    cuts_keys_of_sessions (CutsKeys) { sessions::sessions_that_look_alike_are_kept_apart }
    counts_repeats_in_sessions (CountsRepeats) {
        sessions::a_repeated_request_gets_the_same_lease
        session_races::an_owner_that_races_with_itself_gets_one_lease
    }
    calls_claimed_work_done_in_sessions (CallsClaimedWorkDone) { sessions::a_request_is_held_while_another_works_on_it }
    never_takes_over_in_sessions (NeverTakesOver) { sessions::a_request_is_taken_over_when_its_lease_has_run_out }
    ignores_fingerprints_in_sessions (IgnoresFingerprints) { sessions::other_content_under_the_same_number_is_key_reuse }
    opens_again (OpensAgain) {
        sessions::a_session_is_opened_once
        session_lives::a_session_that_has_ended_never_lives_again
        session_lives::a_late_opening_does_not_revive_a_closed_session
    }
    reopening_changes (ReopeningChanges) {
        sessions::a_second_opening_changes_neither_window_nor_life
        session_lives::a_session_that_has_ended_never_lives_again
    }
    caps_windows (CapsWindows) { sessions::a_window_may_be_narrow_or_wide }
    believes_the_key (BelievesTheKey) { sessions::a_request_under_another_key_is_refused }
    orders_numbers (OrdersNumbers) { session_marks::numbers_inside_the_window_run_in_any_order }
    has_no_window (HasNoWindow) {
        session_marks::a_number_beyond_the_window_does_not_run
        session_marks::the_greatest_number_is_the_last
    }
    moves_the_mark_beyond (MovesTheMarkBeyond) { session_marks::a_number_beyond_the_window_does_not_move_the_mark }
    moves_the_mark_of_the_stale (MovesTheMarkOfTheStale) { session_marks::a_number_below_what_it_awaits_itself_is_stale }
    keeps_the_mark (KeepsTheMark) {
        session_marks::a_number_below_the_mark_is_stale
        session_marks::a_failure_that_the_mark_passes_is_not_retried
    }
    runs_the_stale (RunsTheStale) {
        session_marks::a_number_below_the_mark_is_stale
        session_marks::a_failure_that_the_mark_passes_is_not_retried
        session_marks::a_request_that_the_mark_has_passed_is_not_taken_over
        session_transactions::no_transaction_is_opened_outside_of_the_session
    }
    mark_moves_back (MarkMovesBack) { session_marks::the_mark_never_moves_back }
    cuts_numbers (CutsNumbers) { session_marks::the_greatest_number_is_the_last }
    keeps_passed_answers (KeepsPassedAnswers) {
        session_marks::answers_that_the_mark_passes_are_removed
        session_marks::a_mark_that_leaps_removes_all_answers_below
    }
    removes_one_too_many (RemovesOneTooMany) { session_marks::answers_from_the_mark_on_stay }
    removes_below_the_mark_only (RemovesBelowTheMarkOnly) { session_marks::a_mark_that_leaps_removes_all_answers_below }
    removes_what_is_in_progress (RemovesWhatIsInProgress) {
        session_marks::a_request_that_the_mark_passes_completes
        session_lives::a_request_completes_after_its_session_was_closed
        session_lives::a_request_completes_after_its_session_is_gone
        session_expiry::a_request_in_progress_is_not_removed
        session_races::a_completion_that_races_with_the_mark_counts
        session_transactions::a_transaction_that_the_mark_passes_commits
    }
    forgets_in_sessions (ForgetsInSessions) { session_marks::no_record_is_forgotten_while_its_session_lives }
    retention_in_millis_in_sessions (RetentionInMillis) { session_marks::no_record_is_forgotten_while_its_session_lives }
    never_ends_sessions (NeverEndsSessions) { session_lives::a_session_ends_with_its_life }
    ends_sessions_early (EndsSessionsEarly) { session_lives::a_session_lives_until_its_end }
    touch_is_no_sign (TouchIsNoSign) { session_lives::a_touch_prolongs_a_session }
    claim_is_no_sign (ClaimIsNoSign) { session_lives::every_claim_prolongs_a_session }
    only_work_is_a_sign (OnlyWorkIsASign) { session_lives::every_claim_prolongs_a_session }
    touch_revives (TouchRevives) {
        session_lives::a_session_that_has_ended_never_lives_again
        session_lives::a_closed_session_has_ended
    }
    close_is_forgotten (CloseIsForgotten) {
        session_lives::a_closed_session_has_ended
        session_races::a_session_that_is_closed_in_a_race_has_ended
    }
    close_keeps_answers (CloseKeepsAnswers) { session_lives::a_closed_session_has_ended }
    close_forgets_the_session (CloseForgetsTheSession) { session_lives::a_late_opening_does_not_revive_a_closed_session }
    closes_the_unknown (ClosesTheUnknown) { session_lives::closing_an_unknown_session_does_nothing }
    expires_nothing (ExpiresNothing) {
        session_expiry::a_session_is_removed_a_life_after_its_end
        session_expiry::at_most_a_batch_of_sessions_is_removed
        session_expiry::several_that_remove_share_the_work
    }
    expires_the_living (ExpiresTheLiving) {
        session_expiry::living_sessions_are_not_removed
        session_races::touches_that_race_with_the_removal_keep_a_session
    }
    expires_at_once (ExpiresAtOnce) {
        session_expiry::a_session_is_removed_a_life_after_its_end
        session_lives::a_late_opening_does_not_revive_a_closed_session
        session_lives::a_late_opening_does_not_revive_a_short_session
    }
    keeps_short_sessions_short (KeepsShortSessionsShort) { session_lives::a_late_opening_does_not_revive_a_short_session }
    expires_too_many (ExpiresTooMany) { session_expiry::at_most_a_batch_of_sessions_is_removed }
    expires_everything (ExpiresEverything) { session_expiry::nothing_else_is_removed }
    expiry_leaves_answers (ExpiryLeavesAnswers) { session_expiry::a_session_is_removed_a_life_after_its_end }
    sessions_in_two_steps (SessionsInTwoSteps) {
        session_races::marks_that_race_leave_the_greatest
        session_races::a_session_that_is_closed_in_a_race_has_ended
        session_races::openings_that_race_open_one_session
    }
    claims_in_two_steps_in_sessions (ClaimsInTwoSteps) { session_races::of_many_that_race_for_a_number_one_acquires_it }
    loses_its_sessions (LosesItsRecords) {
        session_restarts::a_session_survives_a_restart
        session_restarts::the_end_of_a_session_survives_a_restart
        stream_restarts::a_mark_survives_a_restart
    }
    loses_effects_in_sessions (LosesEffects) { session_transactions::a_transaction_in_a_session_commits_its_answer }
    effects_at_once_in_sessions (EffectsAtOnce) { session_transactions::a_transaction_in_a_session_is_tried_again }
    commits_unfenced_in_sessions (CommitsUnfenced) { session_transactions::a_transaction_that_was_taken_over_in_a_session_commits_nothing }
    ignores_sequences (IgnoresSequences) { positions::a_store_that_keeps_sequences_runs_nothing_beyond_the_greatest_number }
    denies_sequences (DeniesSequences) { sequences::a_number_inside_the_window_is_acquired }
    one_sequence_for_all (OneSequenceForAll) {
        sequences::sequences_are_independent
        sequences::sequences_that_look_alike_are_kept_apart
    }
    sequences_in_two_steps (SequencesInTwoSteps) { sequence_races::copies_that_race_with_the_mark_never_run }
    claims_in_two_steps_in_sequences (ClaimsInTwoSteps) {
        sequence_races::of_copies_that_race_to_begin_a_sequence_one_is_acquired
        sequence_races::numbers_that_race_to_begin_a_sequence_all_run_once
    }
    counts_repeats_in_sequences (CountsRepeats) {
        sequences::an_owner_may_repeat_a_numbered_claim
        sequence_races::an_owner_that_races_with_itself_gets_one_lease
    }
    never_takes_over_in_sequences (NeverTakesOver) { sequences::a_number_is_held_and_taken_over }
    retries_early_in_sequences (RetriesEarly) { sequences::a_failed_number_is_tried_again }
    ignores_fingerprints_in_sequences (IgnoresFingerprints) { sequences::other_content_under_a_number_is_key_reuse }
    orders_messages (OrdersMessages) { sequences::numbers_of_a_window_run_in_any_order }
    runs_ahead (RunsAhead) {
        sequences::a_number_beyond_the_window_is_ahead
        sequence_transactions::no_transaction_is_opened_for_what_does_not_run
    }
    has_no_greatest_number (HasNoGreatestNumber) { sequences::the_greatest_number_of_a_sequence_is_the_last }
    caps_windows_of_sequences (CapsWindows) { sequences::a_window_of_a_sequence_may_be_narrow_or_wide }
    believes_the_key_of_a_message (BelievesTheKey) { sequences::a_message_under_another_key_is_refused }
    forgets_outcomes_at_once (ForgetsOutcomesAtOnce) { sequences::an_outcome_inside_the_window_is_repeated }
    begins_at_zero (BeginsAtZero) {
        sequences::a_number_inside_the_window_is_acquired
        sequence_purge::claims_that_race_with_the_purge_begin_one_sequence
    }
    believes_what_came_before (BelievesWhatCameBefore) {
        sequences::what_came_before_the_beginning_goes_by_the_ordinary_rules
        sequence_races::numbers_that_race_to_begin_a_sequence_all_run_once
    }
    refuses_what_came_before (RefusesWhatCameBefore) { sequences::what_came_before_the_beginning_goes_by_the_ordinary_rules }
    begins_with_any (BeginsWithAny) { sequences::what_may_not_begin_a_sequence_does_not }
    believes_refusals (BelievesRefusals) { sequence_gaps::what_was_refused_is_not_done }
    keeps_what_failed (KeepsWhatFailed) { sequence_gaps::what_is_tried_again_is_missing_when_its_retention_ends }
    keeps_the_narrow_window (KeepsTheNarrowWindow) { sequence_lives::a_window_may_be_narrowed }
    replays_begin (ReplaysBegin) { sequences::a_replay_begins_no_sequence }
    never_moves_the_mark (NeverMovesTheMark) {
        sequences::a_number_that_was_ahead_runs_when_it_is_its_turn
        sequence_marks::the_mark_passes_what_is_done
        sequence_transactions::a_numbered_transaction_commits_once
    }
    waits_for_half_a_window (WaitsForHalfAWindow) { sequence_marks::the_mark_moves_before_what_is_done_is_forgotten }
    keeps_passed_records (KeepsPassedRecords) {
        sequence_marks::the_mark_passes_what_is_done
        sequence_marks::a_completion_that_the_mark_has_passed_is_found_done
    }
    passes_the_claimed (PassesTheClaimed) { sequence_marks::the_mark_never_passes_the_number_that_is_claimed }
    passes_what_is_in_progress (PassesWhatIsInProgress) {
        sequence_marks::the_mark_stops_at_a_number_in_progress
        sequence_races::completions_that_race_with_the_mark_count
        sequence_transactions::a_numbered_transaction_commits_once
    }
    passes_what_failed (PassesWhatFailed) {
        sequence_marks::the_mark_stops_at_a_number_that_failed
        sequence_marks::one_number_is_delayed_while_others_pass
        sequence_transactions::a_numbered_transaction_is_tried_again
    }
    passes_gaps (PassesGaps) { sequence_marks::the_mark_stops_at_a_number_that_never_came }
    stops_at_the_given_up (StopsAtTheGivenUp) { sequence_gaps::what_was_given_up_is_late }
    stops_at_the_quarantined (StopsAtTheQuarantined) { sequence_gaps::what_was_quarantined_stays_quarantined }
    never_skips (NeverSkips) { sequence_gaps::a_gap_is_skipped_when_it_is_asked_for }
    skips_at_once (SkipsAtOnce) {
        sequence_gaps::a_gap_is_skipped_when_it_is_asked_for
        sequence_gaps::a_gap_at_the_end_of_a_narrowed_window_has_its_time
        sequence_gaps::a_sequence_that_begins_anew_waits_anew
    }
    skips_inside_the_window (SkipsInsideTheWindow) { sequence_gaps::a_gap_that_keeps_nobody_waiting_is_not_skipped }
    skips_one_gap (SkipsOneGap) { sequence_gaps::all_gaps_of_a_window_are_skipped_at_once }
    skips_what_may_come (SkipsWhatMayCome) { sequence_gaps::all_gaps_of_a_window_are_skipped_at_once }
    skips_no_wide_gap (SkipsNoWideGap) { sequence_gaps::a_wide_gap_is_skipped_window_by_window }
    skips_beyond_the_window (SkipsBeyondTheWindow) { sequence_gaps::a_wide_gap_is_skipped_window_by_window }
    skips_after_a_pause (SkipsAfterAPause) { sequence_gaps::after_a_pause_a_gap_is_waited_for_anew }
    skips_the_next_gap_at_once (SkipsTheNextGapAtOnce) { sequence_gaps::when_the_mark_moves_the_next_gap_is_waited_for }
    skips_what_failed (SkipsWhatFailed) { sequence_gaps::what_is_tried_again_is_never_skipped }
    runs_what_is_below (RunsWhatIsBelow) {
        sequence_marks::what_the_mark_has_passed_never_runs_again
        sequence_gaps::what_was_given_up_is_late
    }
    replays_what_is_done (ReplaysWhatIsDone) { sequence_marks::what_the_mark_has_passed_never_runs_again }
    applies_to_nothing_below_the_mark (AppliesToNothing) { sequence_marks::a_lease_that_the_mark_has_passed_is_fenced }
    forgets_exceptions (ForgetsExceptions) { sequence_gaps::what_was_given_up_stays_late }
    exceptions_follow_records (ExceptionsFollowRecords) { sequence_gaps::what_was_given_up_stays_late }
    exceptions_are_always_late (ExceptionsAreAlwaysLate) {
        sequence_gaps::a_replay_below_the_mark_has_its_attempts
        sequence_gaps::what_was_quarantined_stays_quarantined
    }
    refuses_replays_below (RefusesReplaysBelow) { sequence_gaps::a_replay_of_what_was_given_up_runs_once }
    runs_the_given_up_below (RunsTheGivenUpBelow) { sequence_gaps::what_was_given_up_is_late }
    counts_from_the_beginning (CountsFromTheBeginning) { sequence_lives::a_sequence_is_known_while_messages_come }
    ahead_is_no_sign (AheadIsNoSign) { sequence_lives::a_message_that_is_ahead_keeps_its_sequence_known }
    never_expires_sequences (NeverExpiresSequences) { sequence_lives::an_expired_sequence_begins_anew }
    keeps_no_window (KeepsNoWindow) { sequence_gaps::what_waits_for_a_gap_is_kept }
    copies_are_a_sign (CopiesAreASign) { sequence_lives::a_copy_below_the_mark_keeps_no_sequence_known }
    looks_too_late (LooksTooLate) { sequence_lives::a_retention_may_be_shortened }
    expires_early (ExpiresEarly) { sequence_lives::what_the_mark_has_passed_is_known_for_most_of_the_retention }
    tells_no_time (TellsNoTime) { sequence_lives::what_is_done_is_told_with_the_rest_of_its_time }
    keeps_old_exceptions (KeepsOldExceptions) {
        sequence_lives::the_exceptions_of_an_expired_sequence_are_gone
        sequence_purge::a_sequence_that_is_purged_in_part_begins_anew
    }
    begins_without_records (BeginsWithoutRecords) { sequence_lives::a_number_in_progress_outlives_its_sequence }
    purges_no_sequences (PurgesNoSequences) {
        sequence_purge::an_expired_sequence_is_purged_with_its_exceptions
        sequence_purge::at_most_a_batch_of_sequences_is_purged
        sequence_purge::purges_of_sequences_that_race_share_the_work
    }
    purges_known_sequences (PurgesKnownSequences) { sequence_purge::a_known_sequence_is_not_purged }
    loses_its_sequences (LosesItsRecords) { sequence_restarts::a_sequence_survives_a_restart }
    commits_unfenced_in_sequences (CommitsUnfenced) { sequence_transactions::a_transaction_that_the_mark_has_passed_commits_nothing }
    lists_one_page (ListsOnePage) { operator_listings::every_key_is_listed_page_by_page }
    lists_every_state (ListsEveryState) { operator_listings::keys_are_listed_by_their_state }
    lists_every_age (ListsEveryAge) { operator_listings::keys_are_listed_by_their_age }
    lists_without_case (ListsWithoutCase) { operator_listings::keys_are_listed_by_the_head_of_their_names }
    hides_the_numbered (HidesNumbered) { operator_listings::a_key_of_a_session_is_listed }
    counts_no_quarantine (CountsNoQuarantine) { operator_listings::keys_are_counted_by_scope_and_state }
    looks_prolong (LooksProlong) { looks::looking_at_a_key_does_not_prolong_it }
    looks_extend (LooksExtend) { looks::looking_at_a_key_does_not_extend_its_lease }
    shows_the_whole_lease (ShowsTheWholeLease) { looks::a_key_in_progress_is_shown_with_its_lease }
    shows_outcomes_as_text (ShowsOutcomesAsText) { looks::a_completed_key_is_shown_with_its_outcome }
    hides_errors (HidesErrors) { looks::a_failed_key_is_shown_with_its_error_and_its_retry }
    shows_no_reason (ShowsNoReason) { looks::a_quarantined_key_is_shown_as_such }
    shows_what_is_not (ShowsWhatIsNot) { looks::what_nobody_has_claimed_is_not_shown }
    creates_with_each_attempt (CreatesWithEachAttempt) { looks::a_key_is_shown_with_its_first_claim_and_its_completion }
    creates_once (CreatesOnce) { looks::a_key_that_was_forgotten_is_shown_as_a_new_one }
    completes_when_claimed (CompletesWhenClaimed) { looks::a_key_is_shown_with_its_first_claim_and_its_completion }
    frees_for_later (FreesForLater) { operator_changes::a_released_retry_is_due_at_once }
    keeps_quarantine (KeepsQuarantine) { operator_changes::a_quarantined_key_that_is_released_runs }
    frees_the_completed (FreesTheCompleted) { operator_changes::a_completed_key_is_not_released }
    forgets_the_lease_alone (ForgetsTheLeaseAlone) {
        operator_changes::a_forgotten_completion_runs_anew
        operator_fences::the_holder_of_a_forgotten_key_is_fenced_out
    }
    completes_any_content (CompletesAnyContent) { operator_changes::a_key_completed_by_hand_makes_copies_duplicates }
    completes_only_the_known (CompletesOnlyTheKnown) { operator_changes::a_key_that_never_came_can_be_completed }
    applies_interventions_to_nothing (AppliesInterventionsToNothing) { operator_changes::what_makes_no_sense_changes_nothing }
    refuses_repeats (RefusesRepeats) { operator_changes::an_intervention_may_be_repeated }
    notes_nothing (NotesNothing) { operator_changes::interventions_are_noted_down }
    frees_under_the_same_token (FreesUnderTheSameToken) { operator_fences::the_holder_of_a_released_key_is_fenced_out }
    completes_under_the_same_token (CompletesUnderTheSameToken) { operator_fences::the_holder_of_a_key_completed_by_hand_is_fenced_out }
    ignores_what_was_seen (IgnoresWhatWasSeen) { operator_fences::what_was_seen_of_another_attempt_changes_nothing }
    compares_tokens_alone (ComparesTokensAlone) { operator_fences::what_was_seen_in_another_state_changes_nothing }
    intervenes_in_two_steps (IntervenesInTwoSteps) { operator_fences::of_interventions_that_race_one_takes_effect }
    writes_in_two_steps (WritesInTwoSteps) {
        cancellation::an_extension_that_was_dropped_midway_can_be_repeated
        cancellation::a_completion_that_was_dropped_midway_can_be_repeated
        cancellation::a_release_that_was_dropped_midway_can_be_repeated
    }
    commits_in_two_steps (CommitsInTwoSteps) { transactions::a_commit_that_was_dropped_midway_is_whole_or_nothing }
    asks_the_worker_for_the_time (AsksTheWorkerForTheTime) {
        worker_clocks::a_workers_clock_that_leaps_ends_no_lease
        worker_clocks::a_workers_clock_that_leaps_forgets_nothing
        worker_clocks::a_workers_clock_that_leaps_brings_no_retry_forward
    }
    promises_only (PromisesOnly) {
        ahead::a_claim_ahead_opens_its_transaction
        ahead::a_claim_ahead_that_is_not_opened_holds_until_its_lease_ends
        ahead::a_claim_ahead_is_an_attempt
        ahead::a_duplicate_is_promised_no_transaction
    }
    extends_nothing_ahead (ExtendsNothingAhead) {
        ahead::a_claim_ahead_can_be_extended
        groups::a_claim_for_a_group_is_a_claim
        batches::a_claim_for_a_batch_is_a_claim
    }
    opens_under_another_token (OpensUnderAnotherToken) { ahead::a_claim_ahead_opens_its_transaction }
    commits_unfenced_ahead_and_in_groups (CommitsUnfenced) {
        ahead::a_claim_ahead_that_was_taken_over_commits_nothing
        groups::a_member_that_was_taken_over_commits_nothing
        entities::an_attempt_that_was_taken_over_records_nothing
    }
    forgets_attempts_on_failure_in_groups (ForgetsAttemptsOnFailure) {
        groups::a_claim_for_a_group_is_a_claim
        batches::a_claim_for_a_batch_is_a_claim
    }
    gives_seats_to_duplicates (LendsToDuplicates) {
        groups::a_duplicate_is_told_so_instead_of_a_claim_for_a_group
        batches::a_duplicate_is_told_so_instead_of_a_claim_for_a_batch
    }
    loses_effects_in_groups (LosesEffects) { groups::the_members_of_a_group_commit_together }
    keeps_dropped_seats (KeepsDroppedSeats) { groups::a_slot_that_was_dropped_is_rolled_back_by_itself }
    commits_each_seat (CommitsEachSeat) { groups::the_members_of_a_group_commit_together }
    forgets_who_does_not_wait (ForgetsWhoDoesNotWait) { groups::the_end_of_a_group_need_not_be_waited_for }
    waits_for_the_gone (WaitsForTheGone) { groups::whoever_leaves_the_queue_is_passed_over }
    loses_effects_in_batches (LosesEffects) { batches::the_keys_of_a_batch_are_completed_with_what_was_written }
    completes_part_of_a_batch (CompletesPartOfABatch) { batches::a_batch_with_one_that_was_taken_over_commits_nothing }
    keeps_what_a_batch_rolled_back (KeepsWhatABatchRolledBack) { batches::a_batch_that_is_rolled_back_leaves_its_claims }
    loses_entities (LosesEntities) { entities::an_entity_that_was_committed_is_recorded }
    shows_entities_at_once (EntitiesAtOnce) { entities::an_entity_that_was_rolled_back_is_not_recorded }
    is_violated_by_anything (ViolatedByAnything) { entities::a_copy_violates_the_constraint_and_nothing_else_does }
    is_violated_by_any_constraint (ViolatedByAnyConstraint) { entities::a_copy_violates_the_constraint_and_nothing_else_does }
    takes_any_row (TakesAnyRow) { entities::a_row_that_was_there_before_is_a_violation }
    commits_without_entity (CommitsWithoutEntity) { entities::a_handler_that_leaves_no_entity_is_refused }
    believes_the_handler_of_an_entity (BelievesTheHandler) { entities::a_transaction_that_the_handler_ended_records_nothing }
    keeps_attempts (KeepsAttempts) {
        entities::a_commit_removes_the_record_of_its_attempt
        entities::an_attempt_at_what_is_recorded_ends
    }
    ends_attempts_by_looking (LookingEndsAttempts) { entities::an_attempt_at_what_is_not_recorded_goes_on }
    ends_others_attempts (EndsOthersAttempts) { entities::an_attempt_at_what_is_not_recorded_goes_on }
    accepts_any_constraint (AcceptsAnyConstraint) { entities::a_constraint_is_looked_at_first }
    commits_without_its_messages (CommitsWithoutItsMessages) { outbox::what_is_published_is_committed_with_the_completion }
    publishes_unfenced (PublishesUnfenced) { outbox::a_completion_that_is_fenced_publishes_nothing }
    takes_for_ever (TakesForEver) { outbox::what_was_taken_is_told_again_when_its_lease_has_run_out }
    leaves_nothing_to_its_committer (LeavesNothingToItsCommitter) { outbox::what_is_published_at_once_is_left_to_who_commits_it }
    keeps_bodies_as_text (KeepsBodiesAsText) { outbox::content_is_bytes_and_ids_are_texts }
    leaves_at_once (LeavesAtOnce) { outbox::what_is_to_leave_later_is_due_then }
    keeps_what_is_published (KeepsWhatIsPublished) { outbox::what_was_removed_is_not_told_again }
    forgets_why_it_was_not_published (ForgetsWhyItWasNotPublished) { outbox::what_could_not_be_published_is_due_again }
    puts_back_what_others_have (PutsBackWhatOthersHave) { outbox::what_somebody_else_has_taken_is_not_put_back }
    counts_what_was_not_tried (CountsWhatWasNotTried) { outbox::what_was_not_tried_is_no_attempt }
    never_gives_up_a_message (NeverGivesUp) { outbox::what_was_given_up_waits_for_somebody }
    ignores_lanes (IgnoresLanes) {
        outbox::of_a_lane_only_the_first_is_told
        outbox::the_first_of_each_lane_is_found
    }
    passes_the_dead (PassesTheDead) { outbox::one_that_was_given_up_stops_its_lane }
    tells_everybody (TellsEverybody) { outbox::each_is_told_to_one }
    cancels_what_begins_so (CancelsWhatBeginsSo) { outbox::what_is_to_leave_later_can_be_cancelled }
    takes_any_length (TakesAnyLength) { outbox::what_is_long_is_taken_little_by_little }
    takes_waiting_for_untaken (TakesWaitingForUntaken) { outbox::a_glance_shows_how_many_wait_and_for_how_long }
    suspects_every_lane (SuspectsEveryLane) { outbox::what_may_need_somebody_is_told }
    lists_more_than_a_page (ListsMoreThanAPage) { outbox::messages_are_listed_in_pages }
    begins_with_a_mark (BeginsWithAMark) { streams::a_new_stream_has_no_mark }
    everybody_reads (EverybodyReads) { streams::one_worker_at_a_time_reads_a_stream }
    holds_off_its_reader (HoldsOffItsReader) { streams::a_repeated_claim_of_a_stream_gets_the_same_lease }
    never_takes_streams_over (NeverTakesStreamsOver) { streams::a_stream_whose_reader_is_gone_is_taken_over }
    streams_unfenced (StreamsUnfenced) {
        streams::a_stream_whose_reader_is_gone_is_taken_over
        streams::a_person_sets_the_mark_anywhere
    }
    stream_tokens_stay (StreamTokensStay) { streams::a_stream_whose_reader_is_gone_is_taken_over }
    heartbeats_do_nothing (HeartbeatsDoNothing) {
        streams::a_heartbeat_keeps_a_stream
        streams::a_lease_that_ran_out_still_moves_the_mark
    }
    loses_the_last_mark (LosesTheLastMark) {
        streams::a_mark_is_found_by_the_next_reader
        streams::a_great_offset_is_kept_exactly
    }
    stream_marks_move_back (StreamMarksMoveBack) { streams::a_mark_never_moves_back }
    ends_with_the_lease (EndsWithTheLease) { streams::a_lease_that_ran_out_still_moves_the_mark }
    keeps_streams_given_back (KeepsStreamsGivenBack) { streams::a_stream_that_was_given_back_is_free_at_once }
    heartbeats_bring_streams_back (HeartbeatsBringStreamsBack) { streams::a_late_heartbeat_does_not_bring_a_stream_back }
    sets_marks_forward_only (SetsMarksForwardOnly) { streams::a_person_sets_the_mark_anywhere }
    sets_marks_under_its_reader (SetsMarksUnderItsReader) { streams::a_person_sets_the_mark_anywhere }
    one_mark_for_all (OneMarkForAll) { streams::each_handler_has_a_mark_of_its_own }
    forgets_marks (ForgetsMarks) { streams::a_mark_is_kept_without_end }
    cuts_offsets (CutsOffsets) { streams::a_great_offset_is_kept_exactly }
    lists_what_is_read (ListsWhatIsRead) { streams::every_stream_is_listed_with_its_mark }
    lists_no_marks (ListsNoMarks) { streams::every_stream_is_listed_with_its_mark }
    lists_streams_backwards (ListsStreamsBackwards) { streams::every_stream_is_listed_with_its_mark }
    claims_streams_in_two_steps (ClaimsStreamsInTwoSteps) { streams::of_many_that_race_for_a_stream_one_reads }
    leaves_marks (LeavesMarks) {
        stream_transactions::the_mark_moves_with_what_was_written
        stream_transactions::a_completion_moves_the_mark_with_it
    }
    loses_effects_in_streams (LosesEffects) { stream_transactions::the_mark_moves_with_what_was_written }
    moves_marks_unfenced (MovesMarksUnfenced) {
        stream_transactions::who_was_taken_over_commits_nothing
        stream_transactions::whose_mark_was_set_by_hand_commits_nothing
        stream_transactions::a_completion_whose_mark_is_fenced_completes_nothing
    }
    moves_marks_again (MovesMarksAgain) {
        stream_transactions::a_mark_that_was_moved_before_commits_nothing
        stream_transactions::a_completion_whose_mark_is_fenced_completes_nothing
    }
    commits_though_fenced (CommitsThoughFenced) {
        stream_transactions::a_mark_that_was_moved_before_commits_nothing
        stream_transactions::who_was_taken_over_commits_nothing
        stream_transactions::a_completion_whose_mark_is_fenced_completes_nothing
    }
    moves_marks_first (MovesMarksFirst) { stream_transactions::a_completion_that_is_fenced_moves_no_mark }
    moves_marks_step_by_step (MovesMarksStepByStep) { stream_transactions::a_mark_moves_over_a_hole }
    moves_extend_leases (MovesExtendLeases) { stream_transactions::a_move_leaves_the_lease_as_it_is }
    moves_end_with_the_lease (MovesEndWithTheLease) { stream_transactions::a_lease_that_ran_out_still_commits }
    keeps_what_a_stream_rolled_back (KeepsWhatABatchRolledBack) { stream_transactions::a_roll_back_moves_no_mark }
    believes_the_handler_of_a_stream (BelievesTheHandler) { stream_transactions::a_transaction_that_the_handler_ended_moves_no_mark }
    commits_a_move_in_two_steps (CommitsInTwoSteps) { stream_transactions::a_move_that_was_dropped_midway_is_whole_or_nothing }
    passes_over_marks (PassesOverMarks) { stream_transactions::several_completions_with_a_mark_are_refused }
    moves_marks_without_their_messages (CommitsWithoutItsMessages) { stream_transactions::what_was_published_commits_with_the_mark }
}
