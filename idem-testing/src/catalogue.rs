//! What a message can meet, and how that is played.

use std::fmt;

use super::{Call, CrashPoint, Ending, Rehearsal};

/// What a message meets on its way to being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Situation {
    DeliveredAgain,
    AtOnce,
    Crash(CrashPoint),
    AnswerLost,
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

impl Situation {
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
        }
    }
}
