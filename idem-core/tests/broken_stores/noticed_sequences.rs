//! The property test for sequences under test: which flaws it notices, without being told where to
//! look.

#[path = "../sequences/call.rs"]
mod call;
#[path = "../sequences/drive.rs"]
mod drive;
#[path = "../sequences/oracle.rs"]
mod oracle;

use crate::{
    compare::config,
    flaw::Flaw,
    harness::{PlainHarness, paused_runtime},
    noticed::{noticed, shows_a_difference},
    store::PlainStore,
};
use call::calls;
use drive::{Purges, run};
use idem_core::store::Purge as _;

fn differs(flaw: Option<Flaw>, cases: u32) -> bool {
    let purges: Purges<PlainStore> = Some(|store| Box::pin(store.purge(100)));
    shows_a_difference(config(cases), &calls(), |calls| {
        paused_runtime().block_on(async { run(&PlainHarness::new(flaw), purges, calls).await })
    })
}

noticed! {
    ignores_sequences (IgnoresSequences)
    one_sequence_for_all (OneSequenceForAll)
    orders_messages (OrdersMessages)
    runs_ahead (RunsAhead)
    forgets_outcomes_at_once (ForgetsOutcomesAtOnce)
    begins_at_zero (BeginsAtZero)
    believes_what_came_before (BelievesWhatCameBefore)
    refuses_what_came_before (RefusesWhatCameBefore)
    replays_begin (ReplaysBegin)
    never_moves_the_mark (NeverMovesTheMark)
    waits_for_half_a_window (WaitsForHalfAWindow)
    keeps_passed_records (KeepsPassedRecords)
    passes_the_claimed (PassesTheClaimed)
    passes_what_is_in_progress (PassesWhatIsInProgress)
    passes_what_failed (PassesWhatFailed)
    passes_gaps (PassesGaps)
    stops_at_the_given_up (StopsAtTheGivenUp)
    stops_at_the_quarantined (StopsAtTheQuarantined)
    never_skips (NeverSkips)
    skips_at_once (SkipsAtOnce)
    skips_one_gap (SkipsOneGap)
    skips_what_may_come (SkipsWhatMayCome)
    skips_no_wide_gap (SkipsNoWideGap)
    skips_after_a_pause (SkipsAfterAPause)
    skips_what_failed (SkipsWhatFailed)
    believes_refusals (BelievesRefusals)
    keeps_no_window (KeepsNoWindow)
    copies_are_a_sign (CopiesAreASign)
    runs_what_is_below (RunsWhatIsBelow)
    replays_what_is_done (ReplaysWhatIsDone)
    forgets_exceptions (ForgetsExceptions)
    exceptions_are_always_late (ExceptionsAreAlwaysLate)
    refuses_replays_below (RefusesReplaysBelow)
    runs_the_given_up_below (RunsTheGivenUpBelow)
    counts_from_the_beginning (CountsFromTheBeginning)
    never_expires_sequences (NeverExpiresSequences)
    purges_known_sequences (PurgesKnownSequences)
}
