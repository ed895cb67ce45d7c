//! What a remembered outcome stands for.

use crate::handler::{Outcome, Refusal};

/// What is remembered of a key that is done with.
///
/// | the outcome's bytes | stand for |
/// |---|---|
/// | JSON | what the handler returned |
/// | `!` and a refusal as JSON | a rejection for good: nothing else came of it |
/// | `?` and a refusal as JSON | work that was done, whose output could not be remembered |
///
/// No JSON begins with either mark, so every output is told from them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// What the handler returned.
    Output(&'a [u8]),
    /// The handler rejected the message for good.
    Rejected(Refusal),
    /// The work was done, but its output is not known any more.
    Forgotten(Refusal),
}

const REJECTED: u8 = b'!';
const FORGOTTEN: u8 = b'?';

impl Outcome {
    /// What it stands for. What cannot be read after a mark is [`Answer::Forgotten`], with the code
    /// [`Refusal::OUTCOME_OUTDATED`].
    pub fn answer(&self) -> Answer<'_> {
        match self.as_bytes() {
            [REJECTED, refusal @ ..] => {
                read(refusal).map_or_else(Answer::Forgotten, Answer::Rejected)
            }
            [FORGOTTEN, refusal @ ..] => Answer::Forgotten(read(refusal).unwrap_or_else(|it| it)),
            output => Answer::Output(output),
        }
    }

    /// The rejection that it stands for, if it is one, readable or not.
    pub(crate) fn rejection(&self) -> Option<Refusal> {
        match self.as_bytes() {
            [REJECTED, refusal @ ..] => Some(read(refusal).unwrap_or_else(|it| it)),
            _ => None,
        }
    }

    /// A rejection, remembered for good: what a store is told when a handler rejects a request for which somebody
    /// waits.
    pub fn rejected(refusal: &Refusal) -> Self {
        Self::marked(REJECTED, refusal)
    }

    /// Remembers that it was done, and why it is not known with which output.
    pub(crate) fn forgotten(refusal: &Refusal) -> Self {
        Self::marked(FORGOTTEN, refusal)
    }

    fn marked(mark: u8, refusal: &Refusal) -> Self {
        let mut bytes = vec![mark];
        bytes.extend(refusal.to_json());
        Self::new(bytes)
    }
}

/// The refusal; or that it cannot be read, as one.
fn read(refusal: &[u8]) -> Result<Refusal, Refusal> {
    serde_json::from_slice(refusal).map_err(|error| {
        let message = format!("the remembered refusal cannot be read: {error}");
        Refusal::new(Refusal::OUTCOME_OUTDATED, message)
    })
}
