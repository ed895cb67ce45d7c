//! What is remembered of an attempt, and told to copies: its output or its rejection, within the policy's limit.
//!
//! The modes and [`verdict`](super::verdict) ask for it at the end of an attempt. What must stay true:
//!
//! - An output or a typed error that is larger than the policy allows reaches no store.
//! - A rejection that is remembered can be read again.

use serde::Serialize;

use super::guarded;
use crate::{
    handler::{Answer, Outcome, Policy, Refusal},
    message::{Envelope, Key},
};

/// Whether somebody waits for an answer: then a rejection is remembered like an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    /// The message expects a reply.
    Waits,
    /// No reply is sent: what is rejected is dead-lettered, and a replay of it runs again.
    Nobody,
}

impl Requester {
    pub(super) fn of(envelope: &Envelope) -> Self {
        if envelope.expects_reply() {
            Self::Waits
        } else {
            Self::Nobody
        }
    }
}

/// The output as it is remembered, or why it cannot be: JSON does not express it, or it is larger than the policy's
/// limit. What follows from that is the mode's decision: whether the effect can still be undone.
pub(super) fn output(output: &impl Serialize, policy: &Policy) -> Result<Outcome, Refusal> {
    let outcome = guarded::outcome(output).map_err(|error| {
        let message = format!("the output is not expressible as JSON: {error}");
        Refusal::new(Refusal::OUTCOME_NOT_SERIALIZABLE, message)
    })?;
    // Of the JSON, because that is what the store keeps and a copy is sent.
    let (bytes, limit) = (outcome.as_bytes().len(), policy.max_outcome());
    if bytes > limit {
        let message = format!("the output has {bytes} bytes, more than the {limit} that are kept");
        return Err(Refusal::new(Refusal::OUTCOME_TOO_LARGE, message));
    }
    Ok(outcome)
}

/// A rejection as it is remembered, and as the requester is told it: both are the same, so that a copy gets the same
/// answer. A typed error is left out that is too large, or nested too deeply to be read again.
pub(super) fn rejection(refusal: Refusal, policy: &Policy, key: &Key) -> (Refusal, Outcome) {
    let outcome = Outcome::rejected(&refusal);
    let (bytes, limit) = (outcome.as_bytes().len(), policy.max_outcome());
    // Read back at once: what cannot be read would be told to copies as something else than a rejection.
    let is_readable = matches!(outcome.answer(), Answer::Rejected(_));
    if refusal.error().is_none() || (bytes <= limit && is_readable) {
        return (refusal, outcome);
    }
    tracing::error!(%key, bytes, limit, is_readable, "the rejection cannot be remembered as it is, its typed error is left out");
    // Its code and message stay: the requester learns at least that it was rejected, and why.
    let refusal = refusal.untyped();
    let outcome = Outcome::rejected(&refusal);
    (refusal, outcome)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// JSON is read to a depth of 128, and the answer is a level of its own.
    #[test]
    fn a_typed_error_that_is_nested_too_deeply_to_be_read_again_is_left_out() {
        let key = Key::new("leases", "printer").expect("it is short");
        let nested = |depth| (0..depth).fold(json!(1), |inner, _| Value::Array(vec![inner]));
        for (depth, is_kept) in [(0, true), (100, true), (127, false), (1000, false)] {
            let typed = Refusal::rejected("taken").typed(nested(depth));
            let (told, outcome) = rejection(typed, &Policy::DEFAULT, &key);
            assert_eq!(told.error().is_some(), is_kept, "{depth}");
            assert_eq!((told.code(), told.message()), ("rejected", "taken"));
            assert_eq!(outcome.answer(), Answer::Rejected(told), "{depth}");
        }
    }
}
