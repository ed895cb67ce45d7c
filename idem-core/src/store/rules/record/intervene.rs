//! What an operator's change comes to.

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
    Written(Record),
    Removed,
}

/// A store's call to intervene, unless it is a repeated one. `floor` is the highest token that the
/// store has ever purged.
pub(crate) fn intervene(
    record: Option<&Record>,
    intervention: &Intervention,
    now: i64,
    floor: i64,
) -> Ruling {
    if record.map(Record::seen) != intervention.seen {
        return Ruling::Refused(Intervened::Changed);
    }
    if !intervention.is_fit() {
        return Ruling::Refused(Intervened::Unfit);
    }
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
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            state: KeyState::from(&self.state),
            token: FencingToken::new(self.token),
        }
    }

    /// The record after somebody has freed its key.
    fn freed(mut self, intervention: &Intervention, token: i64, now: i64) -> Self {
        let error = if let State::Failed { reason, error, .. } = self.state {
            // Who frees it has seen to what the attempt left behind.
            self.in_doubt &= reason != Reason::Quarantined;
            error
        } else {
            self.in_doubt = true;
            Some(format!("released by {}", intervention.by))
        };
        Self {
            token,
            forget_at: now.saturating_add(self.retention),
            state: State::Failed {
                reason: Reason::Failed,
                error,
                not_before: None,
            },
            ..self
        }
    }
}

fn completed(old: Option<&Record>, intervention: &Intervention, token: i64, now: i64) -> Record {
    Record {
        token,
        attempts: old.map_or(0, |old| old.attempts),
        in_doubt: old.is_some_and(|old| old.in_doubt),
        owner: old.map_or(intervention.owner, |old| old.owner),
        fingerprint: old.and_then(|old| old.fingerprint),
        retention: micros(intervention.retention),
        forget_at: after(now, intervention.retention),
        state: State::Completed {
            outcome: intervention.outcome.clone(),
        },
    }
}
