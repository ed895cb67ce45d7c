//! The lists of cases, and the macro that makes a test of each.

use super::{
    BatchHarness, Case, DurableHarness, EntityHarness, GroupHarness, Harness, LookHarness,
    OperatorHarness, PurgeHarness, SequenceHarness, SessionHarness, StreamHarness,
    TransactionalHarness, WorkerClockHarness,
};

/// Writes one test per case of the conformance suite, in a module of the given name.
///
/// `conformance!(memory; MemoryHarness)` runs the cases that every [`Store`](idem_core::Store) must
/// pass; name the capabilities of yours to run their cases too:
/// `conformance!(sqlite; SqliteHarness; Purge, Durable, TransactionalStore)`. See
/// [`conformance`](mod@crate::conformance) for the harness. With `only` before the capabilities, the
/// cases of every store are left out: for a further harness of a store that passes them already.
#[macro_export]
macro_rules! conformance {
    ($name:ident; $harness:ty $(; $($capability:ident),+ $(,)?)?) => {
        mod $name {
            use super::*;
            $crate::__conformance_list!(Store [$crate::__conformance_tests] ($harness));
            $($(
                $crate::__conformance_list!(
                    $capability [$crate::__conformance_tests] ($harness)
                );
            )+)?
        }
    };
    ($name:ident; $harness:ty; only $($capability:ident),+ $(,)?) => {
        mod $name {
            use super::*;
            $($crate::__conformance_list!(
                $capability [$crate::__conformance_tests] ($harness)
            );)+
        }
    };
}

/// One test per case, in one module per file.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    (($harness:ty) $($file:ident { $($case:ident)+ })+) => { $(
        mod $file {
            use super::*;
            $(
                #[test]
                fn $case() {
                    $crate::conformance::run::<$harness>($crate::conformance::$file::$case);
                }
            )+
        }
    )+ };
}

/// A `Vec` of cases.
macro_rules! cases {
    (() $($file:ident { $($case:ident)+ })+) => {
        vec![$($(
            Case::new(
                concat!(stringify!($file), "::", stringify!($case)),
                |harness| Box::pin(super::$file::$case(harness)),
            ),
        )+)+]
    };
}

/// A function for each list.
macro_rules! lists {
    ($($(#[$doc:meta])+ $name:ident: $list:ident, $($harness:ident)&+;)+) => {
        impl<H: Harness> Case<H> { $(
            $(#[$doc])+
            pub fn $name() -> Vec<Self>
            where
                $(H: $harness,)+
            {
                crate::__conformance_list!($list [cases] ())
            }
        )+ }
    };
}

lists! {
    /// The cases that every store must pass.
    of_store: Store, Harness;
    /// The cases of stores that are told when to forget.
    of_purge: Purge, PurgeHarness;
    /// The cases of stores that keep sessions.
    of_sessions: SessionStore, SessionHarness;
    /// The cases of stores that are told when to remove sessions.
    of_session_expiry: SessionExpiry, SessionHarness;
    /// The cases of stores that keep sessions and outlive their process.
    of_durable_sessions: DurableSessions, DurableHarness & SessionHarness;
    /// The cases of stores that keep sessions and lend their transaction.
    of_transactional_sessions: TransactionalSessions, SessionHarness & TransactionalHarness;
    /// The cases of stores that keep sequences.
    of_sequences: SequenceStore, SequenceHarness;
    /// The cases of stores that are told when to remove sequences.
    of_sequence_purge: SequencePurge, SequenceHarness & PurgeHarness;
    /// The cases of stores that keep sequences and outlive their process.
    of_durable_sequences: DurableSequences, DurableHarness & SequenceHarness;
    /// The cases of stores that keep sequences and lend their transaction.
    of_transactional_sequences: TransactionalSequences, SequenceHarness & TransactionalHarness;
    /// The cases of stores that keep marks of streams.
    of_streams: StreamStore, StreamHarness;
    /// The cases of stores that keep marks of streams and outlive their process.
    of_durable_streams: DurableStreams, DurableHarness & StreamHarness;
    /// The cases of stores that keep marks of streams and move them in the transaction that they lend.
    of_transactional_streams: TransactionalStreams, StreamHarness & BatchHarness;
    /// The cases of stores that tell what they know of a key.
    of_looks: Look, LookHarness;
    /// The cases of stores that tell what they know of a key and lend their transaction.
    of_transactional_looks: TransactionalLooks, LookHarness & TransactionalHarness;
    /// The cases of stores that show their keys to operators.
    of_operators: OperatorStore, OperatorHarness;
    /// The cases of stores that outlive their process.
    of_durability: Durable, DurableHarness;
    /// The cases of stores that lend their transaction.
    of_transactions: TransactionalStore, TransactionalHarness;
    /// The cases of stores whose messages may share a transaction.
    of_groups: GroupStore, GroupHarness;
    /// The cases of stores that complete several keys with one commit.
    of_batches: BatchStore, BatchHarness;
    /// The cases of stores that keep what handlers publish.
    of_outboxes: Outbox, TransactionalHarness;
    /// The cases of stores that can tell by a constraint what was handled.
    of_entities: RecordedByStore, EntityHarness;
    /// The cases of stores whose time is a server's.
    of_server_clock: ServerClock, WorkerClockHarness;
}

/// The names of all cases, handed to the macro that is given.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    (Store [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            claims {
                a_new_key_is_acquired_as_its_first_attempt
                a_claimed_key_is_held_for_everybody_else
                a_lease_runs_down_on_the_clock_of_the_store
                a_lease_holds_until_its_end
                a_lease_that_has_run_out_is_taken_over
                a_takeover_has_the_lease_that_it_asked_for
                an_extension_counts_from_now
                a_heartbeat_keeps_a_key_for_many_leases
                an_extension_may_shorten_a_lease
                a_lease_of_zero_is_still_a_claim
                a_claim_that_takes_nothing_over_leaves_a_lease_that_has_run_out
                different_keys_are_independent
            }
            owners {
                a_repeated_claim_gets_the_same_lease
                a_repeated_claim_may_come_through_another_handle
                a_repeated_claim_renews_the_lease
                a_repeated_claim_never_shortens_the_lease
                an_owner_whose_lease_ran_out_unnoticed_has_its_key_again
                an_owner_that_was_taken_over_is_held_off
                a_repeated_claim_is_as_much_in_doubt_as_before
                an_owner_that_released_does_not_acquire_again
                a_late_claim_does_not_block_the_next_owner
                an_owner_that_completed_is_told_so
                a_claim_that_was_dropped_midway_can_be_repeated
            }
            cancellation {
                an_extension_that_was_dropped_midway_can_be_repeated
                a_completion_that_was_dropped_midway_can_be_repeated
                a_release_that_was_dropped_midway_can_be_repeated
            }
            tokens {
                tokens_grow_over_a_release
                tokens_grow_over_a_takeover
                tokens_grow_after_a_completion_is_forgotten
                tokens_grow_after_an_attempt_is_forgotten
                tokens_grow_even_if_the_clock_stands_still
                tokens_grow_over_a_whole_life
            }
            fencing {
                a_late_completion_does_not_end_the_successors_claim
                a_late_release_does_not_free_the_successors_claim
                a_late_extension_does_not_touch_the_successors_lease
                a_zombie_does_not_overwrite_a_completion
                a_zombie_does_not_end_what_the_successor_released
                an_extension_does_not_revive_a_released_key
                a_completion_does_not_revive_a_released_key
                a_completed_key_is_neither_extended_nor_released
                a_write_to_an_unknown_key_creates_nothing
                a_write_with_a_token_never_given_is_fenced
                a_lease_that_ran_out_unnoticed_may_complete
                a_lease_that_ran_out_unnoticed_may_be_extended
                a_lease_that_ran_out_unnoticed_may_be_released
                a_lease_from_a_former_life_is_fenced
            }
            completion {
                a_completed_key_answers_its_outcome
                work_that_was_only_claimed_is_never_a_duplicate
                work_that_failed_is_never_a_duplicate
                a_repeated_completion_is_applied_and_changes_nothing
                a_repeated_release_is_applied_and_changes_nothing
                a_repeated_abandonment_is_counted_once
                a_release_with_another_reason_is_fenced
                looking_at_a_completed_key_does_not_prolong_it
                a_replay_of_completed_work_is_a_duplicate
                a_completion_outlives_its_lease
            }
            attempts {
                a_failed_attempt_is_counted_and_not_in_doubt
                a_vanished_attempt_is_counted_and_in_doubt
                an_abandoned_claim_is_no_attempt
                attempts_restart_after_giving_up
                a_failure_ends_the_doubt
                an_abandoned_claim_leaves_the_doubt
                giving_up_ends_the_doubt
                attempts_are_counted_over_failures_and_takeovers
                an_extension_is_no_attempt
                a_claim_that_was_held_off_is_no_attempt
            }
            replay {
                a_quarantined_key_stops_all_copies
                a_replay_runs_a_quarantined_key
                a_replay_of_a_quarantined_key_may_carry_other_content
                a_replay_without_fingerprint_drops_the_quarantined_content
                a_quarantine_ends_with_its_retention
                a_replay_of_a_failed_key_starts_over
                a_replay_that_takes_over_starts_over
                a_replay_is_held_while_a_worker_holds_the_key
            }
            fingerprints {
                the_same_content_is_a_duplicate
                other_content_on_a_completed_key_is_key_reuse
                other_content_is_held_while_a_worker_holds_the_key
                other_content_on_a_failed_key_is_key_reuse
                a_replay_with_other_content_on_a_failed_key_is_key_reuse
                other_content_runs_after_giving_up
                other_content_runs_after_a_claim_was_abandoned
                the_content_of_an_abandoned_takeover_is_dropped
                an_abandoned_retry_keeps_the_content
                other_content_may_take_over
                a_claim_without_fingerprint_matches_any_content
                a_key_without_fingerprint_matches_any_content
                a_claim_without_fingerprint_keeps_the_one_there_is
                key_reuse_does_not_prolong_the_memory
                content_is_forgotten_with_the_record
            }
            retention {
                a_completion_is_remembered_until_its_retention_ends
                a_completion_is_forgotten_when_its_retention_ends
                the_completions_retention_replaces_the_claims
                a_retention_of_years_is_kept
                a_failure_is_forgotten_when_its_retention_ends
                a_vanished_attempt_is_forgotten_when_its_retention_ends
                a_vanished_attempt_is_remembered_after_its_lease
                a_lease_outlives_its_retention
                an_extension_prolongs_the_record
                a_release_prolongs_the_record
                a_repeated_claim_prolongs_the_record
                a_claim_that_was_held_off_does_not_prolong_the_record
                the_last_claims_retention_counts
            }
            retries {
                a_failed_key_is_held_until_its_retry_is_due
                the_delay_counts_from_the_failure
                a_failure_without_a_delay_frees_its_key_at_once
                other_content_is_refused_before_the_retry_is_due
                a_replay_does_not_wait_for_the_retry
                a_replay_ends_the_delay
                a_repeated_failure_does_not_put_off_the_retry
                a_delay_outlives_the_retention
            }
            bytes {
                an_empty_outcome_is_remembered
                an_outcome_of_odd_bytes_is_remembered
                a_large_outcome_is_remembered
                keys_of_the_greatest_length_are_kept_apart
                keys_that_were_shortened_are_kept_apart
                keys_that_look_alike_are_kept_apart
                keys_that_differ_in_case_or_spaces_are_kept_apart
                keys_of_odd_characters_are_kept_apart
                errors_of_any_text_are_accepted
            }
            concurrency {
                of_many_that_race_for_a_new_key_one_acquires_it
                of_many_that_race_for_an_expired_lease_one_takes_over
                of_two_that_race_for_an_expired_lease_one_takes_over
                of_many_that_race_for_a_failed_key_one_acquires_it
                of_many_that_race_for_a_forgotten_key_one_acquires_it
                an_owner_that_races_with_itself_gets_one_lease
                a_completion_that_races_with_a_takeover_counts_or_is_fenced
                a_release_that_races_with_an_extension_is_not_undone
                completions_that_race_leave_one_outcome
                many_keys_at_once_go_to_one_worker_each
                a_crowd_gets_its_work_done_once
            }
            positions {
                a_store_that_keeps_sessions_runs_nothing_of_an_unknown_one
                a_store_that_keeps_sequences_runs_nothing_beyond_the_greatest_number
            }
        }
    };
    (Purge [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            purge {
                a_purge_removes_what_the_retention_has_ended_for
                a_purge_leaves_what_is_remembered
                a_purge_leaves_a_key_that_is_held
                a_purge_leaves_a_key_that_waits_for_its_retry
                a_purge_removes_at_most_a_batch
                a_purged_key_is_new_and_its_token_grows
                a_purged_key_is_not_revived
                a_purged_completion_is_not_repeated
                a_purge_that_races_with_claims_takes_nothing_from_the_winner
                purges_that_race_share_the_work
            }
        }
    };
    (Durable [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            durability {
                a_completion_survives_a_restart
                a_claim_survives_a_restart
                attempts_survive_a_restart
                a_delay_survives_a_restart
                a_quarantine_survives_a_restart
                tokens_grow_over_a_restart
            }
        }
    };
    (TransactionalStore [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            transactions {
                a_commit_shows_effect_and_completion_together
                a_rollback_leaves_neither_effect_nor_completion
                a_duplicate_is_told_nothing_that_rolls_back
                a_duplicate_during_the_commit_never_works
                an_open_transaction_can_be_extended
                a_transaction_that_nobody_overtook_commits_late
                a_zombie_commits_nothing
                a_zombies_rollback_frees_nothing
                a_transaction_that_was_dropped_leaves_nothing
                a_transaction_that_the_handler_rolled_back_is_refused
                a_transaction_that_the_handler_committed_is_refused
                a_commit_after_a_swallowed_error_tells_the_truth
                a_commit_is_remembered_for_its_retention
                a_commit_that_was_dropped_midway_is_whole_or_nothing
            }
            ahead {
                a_claim_ahead_opens_its_transaction
                a_claim_ahead_that_is_not_opened_holds_until_its_lease_ends
                a_claim_ahead_can_be_extended
                a_claim_ahead_is_an_attempt
                a_duplicate_is_promised_no_transaction
                a_claim_ahead_that_was_taken_over_commits_nothing
            }
            atomic_claims {
                a_duplicate_of_a_commit_opens_nothing
                a_failed_transaction_is_an_attempt
                a_failed_transaction_counts_for_leased_claims_too
                a_failed_transaction_holds_its_key_until_the_retry_is_due
                an_abandoned_transaction_is_no_attempt
                a_transaction_that_was_given_up_starts_over
                a_duplicate_while_a_transaction_is_open_is_held
                other_content_opens_no_transaction
                a_quarantined_key_opens_no_transaction
                an_owner_may_begin_again
                transactions_of_different_keys_are_independent
                of_many_transactions_that_race_one_opens
                many_transactions_at_once_all_commit
            }
        }
    };
    (GroupStore [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            groups {
                the_members_of_a_group_commit_together
                a_slot_that_was_dropped_is_rolled_back_by_itself
                a_member_that_was_taken_over_commits_nothing
                the_end_of_a_group_need_not_be_waited_for
                whoever_leaves_the_queue_is_passed_over
                a_claim_for_a_group_is_a_claim
                a_duplicate_is_told_so_instead_of_a_claim_for_a_group
            }
        }
    };
    (BatchStore [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            batches {
                the_keys_of_a_batch_are_completed_with_what_was_written
                a_batch_with_one_that_was_taken_over_commits_nothing
                a_batch_that_is_rolled_back_leaves_its_claims
                a_claim_for_a_batch_is_a_claim
                a_duplicate_is_told_so_instead_of_a_claim_for_a_batch
            }
        }
    };
    (Outbox [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            outbox {
                what_is_published_is_committed_with_the_completion
                a_completion_that_is_fenced_publishes_nothing
                what_was_taken_is_told_again_when_its_lease_has_run_out
                what_is_published_at_once_is_left_to_who_commits_it
                content_is_bytes_and_ids_are_texts
                what_is_to_leave_later_is_due_then
                what_was_removed_is_not_told_again
                what_could_not_be_published_is_due_again
                what_somebody_else_has_taken_is_not_put_back
                what_was_not_tried_is_no_attempt
                what_was_given_up_waits_for_somebody
                of_a_lane_only_the_first_is_told
                the_first_of_each_lane_is_found
                one_that_was_given_up_stops_its_lane
                each_is_told_to_one
                what_is_to_leave_later_can_be_cancelled
                what_is_long_is_taken_little_by_little
                a_glance_shows_how_many_wait_and_for_how_long
                what_may_need_somebody_is_told
                messages_are_listed_in_pages
            }
        }
    };
    (RecordedByStore [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            entities {
                an_entity_that_was_committed_is_recorded
                an_entity_that_was_rolled_back_is_not_recorded
                a_copy_violates_the_constraint_and_nothing_else_does
                a_row_that_was_there_before_is_a_violation
                a_handler_that_leaves_no_entity_is_refused
                a_transaction_that_the_handler_ended_records_nothing
                a_commit_removes_the_record_of_its_attempt
                an_attempt_that_was_taken_over_records_nothing
                an_attempt_at_what_is_recorded_ends
                an_attempt_at_what_is_not_recorded_goes_on
                a_constraint_is_looked_at_first
            }
        }
    };
    (ServerClock [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            worker_clocks {
                a_workers_clock_that_leaps_ends_no_lease
                a_workers_clock_that_leaps_forgets_nothing
                a_workers_clock_that_leaps_brings_no_retry_forward
            }
        }
    };
    (SessionStore [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            sessions {
                a_request_of_a_living_session_is_acquired
                a_request_of_an_unknown_session_never_runs
                an_answer_is_repeated
                sessions_are_independent
                sessions_that_look_alike_are_kept_apart
                a_repeated_request_gets_the_same_lease
                a_request_is_held_while_another_works_on_it
                a_request_is_taken_over_when_its_lease_has_run_out
                other_content_under_the_same_number_is_key_reuse
                a_session_is_opened_once
                a_second_opening_changes_neither_window_nor_life
                a_window_may_be_narrow_or_wide
                a_request_under_another_key_is_refused
            }
            session_marks {
                numbers_inside_the_window_run_in_any_order
                a_number_beyond_the_window_does_not_run
                a_number_beyond_the_window_does_not_move_the_mark
                a_number_below_the_mark_is_stale
                the_mark_never_moves_back
                answers_that_the_mark_passes_are_removed
                a_mark_that_leaps_removes_all_answers_below
                answers_from_the_mark_on_stay
                a_request_that_the_mark_passes_completes
                a_request_that_the_mark_has_passed_is_not_taken_over
                a_failure_that_the_mark_passes_is_not_retried
                a_number_below_what_it_awaits_itself_is_stale
                the_greatest_number_is_the_last
                no_record_is_forgotten_while_its_session_lives
            }
            session_lives {
                a_session_ends_with_its_life
                a_session_lives_until_its_end
                a_touch_prolongs_a_session
                every_claim_prolongs_a_session
                a_session_that_has_ended_never_lives_again
                a_closed_session_has_ended
                closing_an_unknown_session_does_nothing
                a_late_opening_does_not_revive_a_closed_session
                a_late_opening_does_not_revive_a_short_session
                a_request_completes_after_its_session_was_closed
                a_request_completes_after_its_session_is_gone
                a_session_that_is_gone_runs_nothing
            }
            session_races {
                of_many_that_race_for_a_number_one_acquires_it
                an_owner_that_races_with_itself_gets_one_lease
                marks_that_race_leave_the_greatest
                a_session_that_is_closed_in_a_race_has_ended
                a_completion_that_races_with_the_mark_counts
                claims_that_race_with_the_removal_never_run
                touches_that_race_with_the_removal_keep_a_session
                openings_that_race_open_one_session
            }
        }
    };
    (SessionExpiry [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            session_expiry {
                a_session_is_removed_a_life_after_its_end
                living_sessions_are_not_removed
                a_request_in_progress_is_not_removed
                at_most_a_batch_of_sessions_is_removed
                nothing_else_is_removed
                several_that_remove_share_the_work
            }
        }
    };
    (DurableSessions [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            session_restarts {
                a_session_survives_a_restart
                the_end_of_a_session_survives_a_restart
            }
        }
    };
    (TransactionalSessions [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            session_transactions {
                a_transaction_in_a_session_commits_its_answer
                a_transaction_in_a_session_is_tried_again
                no_transaction_is_opened_outside_of_the_session
                a_transaction_that_the_mark_passes_commits
                a_transaction_that_was_taken_over_in_a_session_commits_nothing
            }
        }
    };
    (SequenceStore [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            sequences {
                a_number_inside_the_window_is_acquired
                numbers_of_a_window_run_in_any_order
                an_outcome_inside_the_window_is_repeated
                a_number_is_held_and_taken_over
                an_owner_may_repeat_a_numbered_claim
                a_failed_number_is_tried_again
                other_content_under_a_number_is_key_reuse
                sequences_are_independent
                sequences_that_look_alike_are_kept_apart
                a_number_beyond_the_window_is_ahead
                a_number_that_was_ahead_runs_when_it_is_its_turn
                the_greatest_number_of_a_sequence_is_the_last
                a_window_of_a_sequence_may_be_narrow_or_wide
                a_message_under_another_key_is_refused
                what_came_before_the_beginning_goes_by_the_ordinary_rules
                what_may_not_begin_a_sequence_does_not
                a_replay_begins_no_sequence
            }
            sequence_marks {
                the_mark_passes_what_is_done
                what_the_mark_has_passed_never_runs_again
                the_mark_stops_at_a_number_in_progress
                the_mark_stops_at_a_number_that_failed
                the_mark_stops_at_a_number_that_never_came
                the_mark_never_passes_the_number_that_is_claimed
                one_number_is_delayed_while_others_pass
                a_completion_that_the_mark_has_passed_is_found_done
                a_lease_that_the_mark_has_passed_is_fenced
                the_mark_moves_before_what_is_done_is_forgotten
            }
            sequence_gaps {
                what_was_given_up_is_late
                a_replay_of_what_was_given_up_runs_once
                a_replay_below_the_mark_has_its_attempts
                what_was_quarantined_stays_quarantined
                what_was_refused_is_not_done
                what_was_given_up_stays_late
                a_gap_is_skipped_when_it_is_asked_for
                all_gaps_of_a_window_are_skipped_at_once
                a_gap_at_the_end_of_a_narrowed_window_has_its_time
                when_the_mark_moves_the_next_gap_is_waited_for
                after_a_pause_a_gap_is_waited_for_anew
                a_gap_that_keeps_nobody_waiting_is_not_skipped
                what_is_tried_again_is_never_skipped
                what_is_tried_again_is_missing_when_its_retention_ends
                a_wide_gap_is_skipped_window_by_window
                a_sequence_that_begins_anew_waits_anew
                what_waits_for_a_gap_is_kept
            }
            sequence_lives {
                a_sequence_is_known_while_messages_come
                a_message_that_is_ahead_keeps_its_sequence_known
                an_expired_sequence_begins_anew
                the_exceptions_of_an_expired_sequence_are_gone
                what_the_mark_has_passed_is_known_for_most_of_the_retention
                a_copy_below_the_mark_keeps_no_sequence_known
                a_window_may_be_narrowed
                a_retention_may_be_shortened
                what_is_done_is_told_with_the_rest_of_its_time
                a_number_in_progress_outlives_its_sequence
            }
            sequence_races {
                of_copies_that_race_to_begin_a_sequence_one_is_acquired
                an_owner_that_races_with_itself_gets_one_lease
                numbers_that_race_to_begin_a_sequence_all_run_once
                completions_that_race_with_the_mark_count
                copies_that_race_with_the_mark_never_run
            }
        }
    };
    (Look [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            looks {
                a_key_in_progress_is_shown_with_its_lease
                a_completed_key_is_shown_with_its_outcome
                a_failed_key_is_shown_with_its_error_and_its_retry
                a_quarantined_key_is_shown_as_such
                what_nobody_has_claimed_is_not_shown
                a_key_is_shown_with_its_first_claim_and_its_completion
                a_key_that_was_forgotten_is_shown_as_a_new_one
                looking_at_a_key_does_not_prolong_it
                looking_at_a_key_does_not_extend_its_lease
            }
        }
    };
    (TransactionalLooks [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            look_transactions {
                a_completion_is_shown_with_its_commit
                what_is_committed_in_vain_is_not_shown
            }
        }
    };
    (OperatorStore [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            operator_listings {
                every_key_is_listed_page_by_page
                keys_are_listed_by_their_state
                keys_are_listed_by_their_age
                keys_are_listed_by_the_head_of_their_names
                keys_are_counted_by_scope_and_state
                a_key_of_a_session_is_listed
            }
            operator_changes {
                a_released_retry_is_due_at_once
                a_quarantined_key_that_is_released_runs
                a_completed_key_is_not_released
                a_forgotten_completion_runs_anew
                a_key_completed_by_hand_makes_copies_duplicates
                a_key_that_never_came_can_be_completed
                what_makes_no_sense_changes_nothing
                an_intervention_may_be_repeated
                interventions_are_noted_down
            }
            operator_fences {
                the_holder_of_a_released_key_is_fenced_out
                the_holder_of_a_forgotten_key_is_fenced_out
                the_holder_of_a_key_completed_by_hand_is_fenced_out
                what_was_seen_of_another_attempt_changes_nothing
                what_was_seen_in_another_state_changes_nothing
                of_interventions_that_race_one_takes_effect
            }
        }
    };
    (SequencePurge [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            sequence_purge {
                an_expired_sequence_is_purged_with_its_exceptions
                a_known_sequence_is_not_purged
                at_most_a_batch_of_sequences_is_purged
                a_sequence_that_is_purged_in_part_begins_anew
                purges_of_sequences_that_race_share_the_work
                claims_that_race_with_the_purge_begin_one_sequence
            }
        }
    };
    (DurableSequences [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            sequence_restarts {
                a_sequence_survives_a_restart
            }
        }
    };
    (StreamStore [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            streams {
                a_new_stream_has_no_mark
                one_worker_at_a_time_reads_a_stream
                a_repeated_claim_of_a_stream_gets_the_same_lease
                a_stream_whose_reader_is_gone_is_taken_over
                a_heartbeat_keeps_a_stream
                a_mark_is_found_by_the_next_reader
                a_mark_never_moves_back
                a_lease_that_ran_out_still_moves_the_mark
                a_stream_that_was_given_back_is_free_at_once
                a_late_heartbeat_does_not_bring_a_stream_back
                a_person_sets_the_mark_anywhere
                each_handler_has_a_mark_of_its_own
                a_mark_is_kept_without_end
                a_great_offset_is_kept_exactly
                every_stream_is_listed_with_its_mark
                of_many_that_race_for_a_stream_one_reads
            }
        }
    };
    (DurableStreams [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            stream_restarts {
                a_mark_survives_a_restart
            }
        }
    };
    (TransactionalStreams [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            stream_transactions {
                the_mark_moves_with_what_was_written
                a_mark_that_was_moved_before_commits_nothing
                who_was_taken_over_commits_nothing
                whose_mark_was_set_by_hand_commits_nothing
                a_mark_moves_over_a_hole
                a_move_leaves_the_lease_as_it_is
                a_lease_that_ran_out_still_commits
                a_roll_back_moves_no_mark
                a_transaction_that_the_handler_ended_moves_no_mark
                a_move_that_was_dropped_midway_is_whole_or_nothing
                a_completion_moves_the_mark_with_it
                a_completion_whose_mark_is_fenced_completes_nothing
                a_completion_that_is_fenced_moves_no_mark
                several_completions_with_a_mark_are_refused
                what_was_published_commits_with_the_mark
            }
        }
    };
    (TransactionalSequences [$($emit:tt)+] $arguments:tt) => {
        $($emit)+! { $arguments
            sequence_transactions {
                a_numbered_transaction_commits_once
                a_numbered_transaction_is_tried_again
                no_transaction_is_opened_for_what_does_not_run
                a_transaction_that_the_mark_has_passed_commits_nothing
            }
        }
    };
}
