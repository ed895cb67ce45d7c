//! What a message can meet, and how that is played.

use std::fmt;

use idem_core::executor::ExecutionKind;

use super::{Call, CrashPoint, Ending, Rehearsal};

/// What a message meets on its way to being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Situation {
    DeliveredAgain,
    AtOnce,
    Crash(CrashPoint),
    AnswerLost,
    OtherContent,
    ClaimUnreached,
    ClaimAnswerLost,
    CompletionUnreached,
    ClientGone(u32),
}

/// Those that every handler can meet; crashes inside of it are as many as it waits.
pub(super) const ALWAYS: [Situation; 7] = [
    Situation::DeliveredAgain,
    Situation::AtOnce,
    Situation::Crash(CrashPoint::BeforeClaim),
    Situation::Crash(CrashPoint::AfterClaim),
    Situation::Crash(CrashPoint::BeforeCompletion),
    Situation::Crash(CrashPoint::AfterCompletion),
    Situation::AnswerLost,
];

/// Those that only handlers can meet for whose answers somebody waits; besides, their clients go away.
pub(super) const OF_CLIENTS: [Situation; 4] = [
    Situation::OtherContent,
    Situation::ClaimUnreached,
    Situation::ClaimAnswerLost,
    Situation::CompletionUnreached,
];

impl Situation {
    /// Whether the same message came twice to a service that nothing else has disturbed.
    pub(super) fn is_copy(self) -> bool {
        matches!(self, Self::DeliveredAgain | Self::AtOnce)
    }

    /// Lets the message meet it, and be done with. `None` if it did not come to that.
    pub(super) async fn play<R: Rehearsal>(self, run: &R, message: &R::Message) -> Option<Ending> {
        match self {
            Self::DeliveredAgain => {
                run.ending(message).await;
                Some(run.ending(&R::again(message)).await)
            }
            Self::AtOnce => {
                let [one, other] = run.endings_at_once(message).await;
                Some(if one.is_done() { other } else { one })
            }
            Self::Crash(point) => match run.crash_or_end(point, message).await {
                None => Some(run.ending(&R::again(message)).await),
                Some(_) => None,
            },
            Self::AnswerLost => {
                run.lose_answer(Call::Complete);
                Some(run.ending(message).await)
            }
            Self::ClaimAnswerLost => {
                run.lose_answer(Call::Claim);
                Some(run.ending(message).await)
            }
            Self::ClaimUnreached | Self::CompletionUnreached => {
                run.fail(match self {
                    Self::ClaimUnreached => Call::Claim,
                    _ => Call::Complete,
                });
                Some(run.ending(message).await)
            }
            Self::OtherContent => {
                let other = R::with_other_content(message)?;
                let first = run.ending(message).await;
                let ending = run.ending(&other).await;
                let is_refused = ending.kind == ExecutionKind::KeyReused;
                Some(if is_refused { first } else { ending })
            }
            Self::ClientGone(wait) => match run.leave_or_end(wait, message).await {
                None => Some(run.ending(message).await),
                Some(_) => None,
            },
        }
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeliveredAgain => f.write_str("delivered again"),
            Self::AtOnce => f.write_str("delivered to two workers at once"),
            Self::Crash(point) => write!(f, "crash {point}"),
            Self::AnswerLost => f.write_str("the store's answer to the completion is lost"),
            Self::ClaimAnswerLost => f.write_str("the store's answer to the claim is lost"),
            Self::ClaimUnreached => f.write_str("the claim does not reach the store"),
            Self::CompletionUnreached => f.write_str("the completion does not reach the store"),
            Self::OtherContent => f.write_str("another request follows under the same key"),
            Self::ClientGone(wait) => {
                write!(
                    f,
                    "the client goes away while the handler runs, at wait {wait}"
                )
            }
        }
    }
}
