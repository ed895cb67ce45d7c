//! The property test under test: which flaws it notices, without being told where to look.

use std::fmt::Debug;

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

use crate::{
    call::calls,
    compare::config,
    drive::run,
    flaw::Flaw,
    forgets::WhenPurged,
    harness::{PlainHarness, paused_runtime},
};

/// One test for each flaw, with the module's own `differs`.
macro_rules! noticed {
    ($($name:ident ($flaw:ident))+) => {
        #[test]
        fn the_property_test_finds_nothing_wrong_with_the_plain_store() {
            assert!(!differs(None, 500));
        }

        mod the_property_test_notices_a_store_that {
            use super::*;
            $(
                #[test]
                fn $name() {
                    assert!(differs(Some(Flaw::$flaw), 4000), "no interleaving shows it");
                }
            )+
        }
    };
}
pub(crate) use noticed;

/// Whether some interleaving shows a difference: the same interleavings each time, and the first that
/// shows it will do.
pub(crate) fn shows_a_difference<C: Debug>(
    config: Config,
    interleavings: &impl Strategy<Value = Vec<C>>,
    run: impl Fn(&[C]) -> Result<(), TestCaseError>,
) -> bool {
    let mut runner = TestRunner::new_with_rng(
        Config {
            max_shrink_iters: 0,
            ..config
        },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    match runner.run(interleavings, |calls| run(&calls)) {
        Ok(()) => false,
        Err(TestError::Fail(_, calls)) => !calls.is_empty(),
        Err(TestError::Abort(reason)) => panic!("the test was given up: {reason}"),
    }
}

fn differs(flaw: Option<Flaw>, cases: u32) -> bool {
    shows_a_difference(config(cases), &calls(), |calls| {
        paused_runtime().block_on(run(&PlainHarness::new(flaw), &WhenPurged, calls))
    })
}

noticed! {
    calls_claimed_work_done (CallsClaimedWorkDone)
    calls_failed_work_done (CallsFailedWorkDone)
    repeats_the_completed (RepeatsTheCompleted)
    replays_the_completed (ReplaysTheCompleted)
    never_takes_over (NeverTakesOver)
    holds_at_zero (HoldsAtZero)
    holds_off_its_owner (HoldsOffItsOwner)
    counts_repeats (CountsRepeats)
    repeat_shortens (RepeatShortens)
    acquires_after_release (AcquiresAfterRelease)
    keeps_the_old_lease (KeepsTheOldLease)
    tokens_from_the_clock (TokensFromTheClock)
    tokens_start_over (TokensStartOver)
    completes_unfenced (CompletesUnfenced)
    releases_unfenced (ReleasesUnfenced)
    extends_unfenced (ExtendsUnfenced)
    extend_revives (ExtendRevives)
    complete_revives (CompleteRevives)
    releases_the_completed (ReleasesTheCompleted)
    completion_expires (CompletionExpires)
    extension_expires (ExtensionExpires)
    release_expires (ReleaseExpires)
    extends_from_the_end (ExtendsFromTheEnd)
    applies_to_nothing (AppliesToNothing)
    fences_repeated_completions (FencesRepeatedCompletions)
    overwrites_outcomes (OverwritesOutcomes)
    fences_repeated_releases (FencesRepeatedReleases)
    releases_twice (ReleasesTwice)
    forgets_completions (ForgetsCompletions)
    forgets_attempts_on_takeover (ForgetsAttemptsOnTakeover)
    forgets_attempts_on_failure (ForgetsAttemptsOnFailure)
    counts_abandoned (CountsAbandoned)
    counts_on_after_giving_up (CountsOnAfterGivingUp)
    counts_on_in_replay (CountsOnInReplay)
    never_in_doubt (NeverInDoubt)
    always_in_doubt (AlwaysInDoubt)
    abandoning_ends_doubt (AbandoningEndsDoubt)
    runs_the_quarantined (RunsTheQuarantined)
    quarantines_for_ever (QuarantinesForEver)
    retries_early (RetriesEarly)
    counts_what_is_early (CountsWhatIsEarly)
    holds_other_content_before_the_retry (HoldsOtherContentBeforeTheRetry)
    delays_replays (DelaysReplays)
    keeps_the_delay (KeepsTheDelay)
    always_delays (AlwaysDelays)
    delays_from_the_end (DelaysFromTheEnd)
    repeated_failures_delay (RepeatedFailuresDelay)
    compares_delays (ComparesDelays)
    forgets_the_delayed (ForgetsTheDelayed)
    drops_fingerprints (DropsFingerprints)
    cuts_fingerprints (CutsFingerprints)
    compares_with_nothing (ComparesWithNothing)
    ignores_fingerprints (IgnoresFingerprints)
    refuses_while_in_progress (RefusesWhileInProgress)
    remembers_what_was_given_up (RemembersWhatWasGivenUp)
    remembers_what_was_quarantined (RemembersWhatWasQuarantined)
    remembers_what_was_abandoned (RemembersWhatWasAbandoned)
    forgets_content (ForgetsContent)
    retention_in_millis (RetentionInMillis)
    keeps_the_claims_retention (KeepsTheClaimsRetention)
    looking_prolongs (LookingProlongs)
    never_forgets_the_unfinished (NeverForgetsTheUnfinished)
    forgets_the_held (ForgetsTheHeld)
    forgets_the_vanished (ForgetsTheVanished)
    extensions_are_no_writes (ExtensionsAreNoWrites)
    releases_are_no_writes (ReleasesAreNoWrites)
    purges_too_many (PurgesTooMany)
    purges_only_the_completed (PurgesOnlyTheCompleted)
    purges_the_held (PurgesTheHeld)
    purges_too_early (PurgesTooEarly)
}
