//! The rules of the store contract, as a failing case quotes them.

use std::fmt;

use idem_core::store::StoreError;

/// A rule of [`Store`](idem_core::Store)'s contract, or of one of its capabilities.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    OneStep,
    TokensGrow,
    Fencing,
    CompletedWins,
    AttemptsSurvive,
    StoreClock,
    Repeats,
    Exits,
    KeyReused,
    Isolation,
    Purge,
    Atomic,
    Ahead,
    Grouped,
    Batched,
    Recorded,
    Outbox,
    Placed,
    SessionEnds,
    Mark,
    Answers,
    SignOfLife,
    OpenedOnce,
    Expiry,
    NeverAgain,
    InSequence,
    Begins,
    Window,
    MarkMoves,
    Gaps,
    Done,
    Exceptions,
    StaysKnown,
    OneReads,
    StreamFencing,
    StreamMark,
    SetByHand,
    KeptForEver,
    StreamsListed,
    MarkCommits,
    Looks,
    LooksAtCommitted,
    Listed,
    Intervenes,
    FencedOut,
    ByState,
    RepeatedByHand,
    NotedDown,
}

impl Rule {
    /// What the store answered; no case expects an error.
    #[track_caller]
    pub(super) fn answer<T>(self, answer: Result<T, StoreError>) -> T {
        match answer {
            Ok(answer) => answer,
            Err(error) => panic!("{self}\n  the store answered an error: {error:?}"),
        }
    }
}

impl fmt::Display for Rule {
    #[allow(clippy::too_many_lines, reason = "a line for each rule")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneStep => "rule 1: a claim is one atomic step, and alone looks at expiry",
            Self::TokensGrow => "rule 2: the fencing tokens of a key grow strictly",
            Self::Fencing => {
                "rule 3: a write takes effect if and only if the key is still claimed under its token"
            }
            Self::CompletedWins => {
                "rule 4: a completion, and nothing else, makes a duplicate until its retention ends"
            }
            Self::AttemptsSurvive => {
                "rule 5: attempts survive release and takeover, doubt is told, and no retry comes early"
            }
            Self::StoreClock => "rule 6: time is the store's own clock",
            Self::Repeats => {
                "rule 7: an owner may repeat its claim, and acquires no more once its lease was ended"
            }
            Self::Exits => {
                "rule 8: every record has an exit, and lives as long as the retention after its last write, its lease or the time of its retry"
            }
            Self::KeyReused => {
                "rule 9: other content is refused on a completed or failed key, and held while a worker has it"
            }
            Self::Isolation => {
                "rule 10: no answer is decided from a transaction that may still roll back"
            }
            Self::Purge => "Purge: removes what the retention has ended for, and nothing else",
            Self::Atomic => {
                "TransactionalStore: the handler's writes and the completion commit together or not at all"
            }
            Self::Ahead => {
                "TransactionalStore: a claim ahead is a claim, and its transaction is opened later"
            }
            Self::Grouped => {
                "GroupStore: those that succeeded commit together, and each of the others is rolled back by itself"
            }
            Self::Batched => {
                "BatchStore: what was written and the completions of all keys commit together, or nothing does"
            }
            Self::Recorded => {
                "RecordedByStore: a constraint says what was handled, and no record of it stays"
            }
            Self::Outbox => {
                "an outbox is committed with the completion, and tells each message to one until it is gone"
            }
            Self::Placed => {
                "SessionStore, rule 1: session and key are decided about in one step, by the ordinary rules inside the window"
            }
            Self::SessionEnds => {
                "SessionStore, rule 2: a session that is unknown or has ended runs nothing, and never lives again"
            }
            Self::Mark => {
                "SessionStore, rule 3: the mark moves to the awaited number and never back; nothing runs below it, nor from its window's end on"
            }
            Self::Answers => {
                "SessionStore, rule 4: answers that the mark passes are removed, what is in progress is left alone"
            }
            Self::SignOfLife => {
                "SessionStore, rule 5: every claim and touch that finds the session living prolongs it"
            }
            Self::OpenedOnce => {
                "SessionStore, rule 6: opening a session that is known changes nothing"
            }
            Self::Expiry => {
                "SessionStore, rule 7: expire removes what ended a life ago, with its answers, and nothing else"
            }
            Self::NeverAgain => {
                "SessionStore, rule 8: no number of a session that has ended is acquired again"
            }
            Self::InSequence => {
                "SequenceStore, rule 1: sequence and key are decided about in one step, by the ordinary rules inside the window"
            }
            Self::Begins => {
                "SequenceStore, rule 2: a sequence begins where it is first seen, and of what came before nobody knows"
            }
            Self::Window => {
                "SequenceStore, rule 3: nothing runs from the window's end on, not even a replay"
            }
            Self::MarkMoves => {
                "SequenceStore, rule 4: the mark passes what is done and what was given up, and stops at everything else"
            }
            Self::Gaps => {
                "SequenceStore, rule 5: the mark passes missing numbers only if it is asked to, and after claims have been ahead for so long"
            }
            Self::Done => {
                "SequenceStore, rule 6: what is done below the mark never runs again, not even for a replay"
            }
            Self::Exceptions => {
                "SequenceStore, rule 7: what is not done below the mark is late, and runs for a replay"
            }
            Self::StaysKnown => {
                "SequenceStore, rule 8: a sequence, and what is in its window, is kept while its producer goes on, and begins anew when it has expired"
            }
            Self::OneReads => {
                "StreamStore, rule 1: one worker at a time reads a stream, for as long as its lease lasts"
            }
            Self::StreamFencing => {
                "StreamStore, rules 2 and 3: tokens grow, and a write takes effect if and only if its token is the current one"
            }
            Self::StreamMark => {
                "StreamStore, rule 4: the mark is kept for each handler and stream, and never moves back"
            }
            Self::SetByHand => {
                "StreamStore, rule 4: a person moves the mark anywhere, and fences whoever reads"
            }
            Self::KeptForEver => "StreamStore, rule 5: a mark is kept until somebody sets it",
            Self::StreamsListed => "StreamStore, rule 7: every stream is listed, once",
            Self::MarkCommits => {
                "BatchStore and StreamStore: what was written commits with the mark that its reader moves over it, once, or not at all"
            }
            Self::Looks => {
                "Look: a key that is recorded is told as it is, and looking changes nothing"
            }
            Self::LooksAtCommitted => "Look, rule 4: what is not committed is not told",
            Self::Listed => {
                "OperatorStore, rule 1: a listing tells of every key that is chosen, as it is"
            }
            Self::Intervenes => {
                "OperatorStore, rule 2: an intervention takes effect if and only if the record is still what was seen"
            }
            Self::FencedOut => {
                "OperatorStore, rule 3: whoever held the key is fenced out, and tokens grow"
            }
            Self::ByState => {
                "OperatorStore, rule 4: what comes of an intervention depends on the state"
            }
            Self::RepeatedByHand => {
                "OperatorStore, rule 5: the same intervention repeated changes nothing and is applied again"
            }
            Self::NotedDown => {
                "OperatorStore, rule 6: what was changed is shown, also after the record is gone"
            }
        })
    }
}
