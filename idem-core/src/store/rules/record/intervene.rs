//! What an operator's change of a record comes to: release, complete, forget.
//!
//! What must stay true:
//!
//! - Only what the operator has seen is changed.
//! - Whatever is written gets a new token, so that a worker who still holds the key is fenced.
// docs/decisions/0022

use super::{Reason, Record, State, after, claim::next_token, micros};
use crate::{
    handler::FencingToken,
    store::operator::{Action, Intervened, Intervention, KeyState, Seen},
};

/// What becomes of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// It stays as it is, and this is why.
    Refused(Intervened),
    /// The store writes this record instead.
    Written(Record),
    /// The store removes the record, and remembers its token as it does in a purge.
    Removed,
}

/// A store's call to intervene, unless it is a repeated one, which the store recognises by itself.
/// `floor` is the highest token that the store has ever purged.
pub(crate) fn intervene(
    record: Option<&Record>,
    intervention: &Intervention,
    now: i64,
    floor: i64,
) -> Ruling {
    // The key has moved on since the operator looked: state or token is another. To release or
    // complete it now could let a message run twice, or not at all.
    if record.map(Record::seen) != intervention.seen {
        return Ruling::Refused(Intervened::Changed);
    }
    if !intervention.is_fit() {
        return Ruling::Refused(Intervened::Unfit);
    }
    // A worker may still hold the key. Under the new token its completion is fenced, and cannot
    // overwrite the operator's decision.
    let token = next_token(record, now, floor);
    match (intervention.action, record) {
        (Action::Forget, _) => Ruling::Removed,
        (Action::Release, Some(old)) => {
            Ruling::Written(old.clone().freed(intervention, token, now))
        }
        (_, old) => Ruling::Written(completed(old, intervention, token, now)),
    }
}

impl Record {
    /// What of the record an operator's change is compared with.
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            state: KeyState::from(&self.state),
            token: FencingToken::new(self.token),
        }
    }

    /// The record after an operator has freed its key: the next claim acquires it.
    fn freed(mut self, intervention: &Intervention, token: i64, now: i64) -> Self {
        let error = if let State::Failed { reason, error, .. } = self.state {
            // A quarantine ends by a person's decision: whoever frees the key has seen to what the
            // attempt left behind. After any other failure the doubt stays as it was.
            self.in_doubt &= reason != Reason::Quarantined;
            error
        } else {
            // The lease was taken from a worker in the middle of its attempt, so its effects may
            // happen.
            self.in_doubt = true;
            Some(format!("released by {}", intervention.by))
        };
        Self {
            token,
            forget_at: now.saturating_add(self.retention),
            written_at: now,
            state: State::Failed {
                reason: Reason::Failed,
                error,
                not_before: None,
            },
            ..self
        }
    }
}

/// The record of a key that an operator has declared done, with or without a record before. What is
/// known of the attempts stays, for whoever looks at it later.
fn completed(old: Option<&Record>, intervention: &Intervention, token: i64, now: i64) -> Record {
    Record {
        token,
        attempts: old.map_or(0, |old| old.attempts),
        in_doubt: old.is_some_and(|old| old.in_doubt),
        owner: old.map_or(intervention.owner, |old| old.owner),
        fingerprint: old.and_then(|old| old.fingerprint),
        retention: micros(intervention.retention),
        forget_at: after(now, intervention.retention),
        created_at: old.map_or(Some(now), |old| old.created_at),
        written_at: now,
        state: State::Completed {
            outcome: intervention.outcome.clone(),
        },
    }
}
