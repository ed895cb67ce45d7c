//! What became of a letter that was chosen.

use crate::wire::DeadLetter;

/// A letter that was chosen and dealt with, as told to [`Replayer::on_letter`](super::Replayer::on_letter).
///
/// ```
/// use idem_amqp::dead_letters::{LetterOutcome, Replayer};
///
/// fn told(replayer: Replayer) -> Replayer {
///     replayer.on_letter(|dealt| match dealt.outcome {
///         LetterOutcome::Failed(error) => eprintln!("{:?} stays: {error}", dealt.letter.key()),
///         outcome => println!("{:?}: {outcome:?}", dealt.letter.key()),
///     })
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct LetterResult<'a> {
    /// The letter.
    pub letter: &'a DeadLetter,
    /// What became of it.
    pub outcome: &'a LetterOutcome,
}

/// What became of a letter that was chosen.
#[derive(Debug)]
#[non_exhaustive]
pub enum LetterOutcome {
    /// It is in its queue again.
    Replayed,
    /// It is gone for good.
    Discarded,
    /// It could not be sent again, and stays where it is.
    Failed(LetterError),
}

/// Why a letter could not be sent again.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LetterError {
    /// Its properties cannot be read by the AMQP client. Whoever sends it again would lose them.
    #[error(
        "the letter's properties cannot be read: {flaw}; discard it, or take it out by another client"
    )]
    Unreadable {
        /// What is wrong with them.
        flaw: String,
    },
    /// Neither idem nor RabbitMQ dead-lettered it: somebody put it there.
    #[error("the letter does not say which queue it came from")]
    OriginUnknown,
    /// The queue that it came from does not exist any more.
    #[error("the queue `{queue}` is gone: declare it first")]
    OriginGone {
        /// The queue's name.
        queue: String,
    },
    /// The queue that it came from took no message: it is full, say.
    #[error("the queue `{queue}` refused the message")]
    Refused {
        /// The queue's name.
        queue: String,
    },
}

idem_core::debug_as_chain!(LetterError);
