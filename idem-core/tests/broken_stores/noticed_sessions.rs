//! The property test for sessions under test: which flaws it notices, without being told where to
//! look.

#[path = "../sessions/call.rs"]
mod call;
#[path = "../sessions/drive.rs"]
mod drive;
#[path = "../sessions/oracle.rs"]
mod oracle;

use crate::{
    compare::config,
    flaw::Flaw,
    harness::{PlainHarness, paused_runtime},
    noticed::{noticed, shows_a_difference},
};
use call::calls;
use drive::{Forgets, run};

fn differs(flaw: Option<Flaw>, cases: u32) -> bool {
    shows_a_difference(config(cases), &calls(), |calls| {
        let harness = PlainHarness::new(flaw);
        paused_runtime().block_on(run(&harness, Forgets::WhenTold, calls))
    })
}

noticed! {
    ignores_sessions (IgnoresSessions)
    refuses_sessions (RefusesSessions)
    runs_without_a_session (RunsWithoutASession)
    one_session_for_all (OneSessionForAll)
    opens_again (OpensAgain)
    reopening_changes (ReopeningChanges)
    orders_numbers (OrdersNumbers)
    has_no_window (HasNoWindow)
    moves_the_mark_beyond (MovesTheMarkBeyond)
    moves_the_mark_of_the_stale (MovesTheMarkOfTheStale)
    keeps_the_mark (KeepsTheMark)
    runs_the_stale (RunsTheStale)
    mark_moves_back (MarkMovesBack)
    keeps_passed_answers (KeepsPassedAnswers)
    removes_one_too_many (RemovesOneTooMany)
    removes_below_the_mark_only (RemovesBelowTheMarkOnly)
    removes_what_is_in_progress (RemovesWhatIsInProgress)
    never_ends_sessions (NeverEndsSessions)
    ends_sessions_early (EndsSessionsEarly)
    touch_is_no_sign (TouchIsNoSign)
    claim_is_no_sign (ClaimIsNoSign)
    only_work_is_a_sign (OnlyWorkIsASign)
    touch_revives (TouchRevives)
    close_is_forgotten (CloseIsForgotten)
    close_keeps_answers (CloseKeepsAnswers)
    close_forgets_the_session (CloseForgetsTheSession)
    closes_the_unknown (ClosesTheUnknown)
    expires_nothing (ExpiresNothing)
    expires_the_living (ExpiresTheLiving)
    expires_at_once (ExpiresAtOnce)
    expires_everything (ExpiresEverything)
    expiry_leaves_answers (ExpiryLeavesAnswers)
}
