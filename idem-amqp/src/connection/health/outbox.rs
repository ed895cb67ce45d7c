//! Whether what handlers publish leaves, as far as the table of the outbox tells.

use std::time::Duration;

use tokio::time::Instant;

use super::{ProblemKind, condition::Condition};

/// How long a message may wait before that counts as a problem: what is tried again after a refusal waits for up to
/// five minutes.
const LATE: Duration = Duration::from_mins(5);

/// The outbox of a worker's handlers.
#[derive(Debug, Default)]
pub(super) struct OutboxState {
    table: Condition,
    dead: Condition,
    late: Condition,
}

impl OutboxState {
    pub(super) fn well(now: Instant) -> Self {
        let well = || Condition::well(now);
        Self {
            table: well(),
            dead: well(),
            late: well(),
        }
    }

    /// It holds so many that were given up, and the oldest that waits has done so for so long.
    pub(super) fn set_contents(&mut self, now: Instant, dead: u64, oldest: Duration) {
        self.table.recover(now);
        let given_up = (dead > 0).then(|| {
            format!("{dead}: `idem outbox list --state dead` tells why, `idem outbox retry` tries them again")
        });
        look(&mut self.dead, now, given_up);
        let late = (oldest >= LATE).then(|| {
            let minutes = oldest.as_secs() / 60;
            format!("the oldest waits for {minutes} min, `idem outbox list` shows it")
        });
        look(&mut self.late, now, late);
    }

    pub(super) fn set_unreadable(&mut self, now: Instant, error: String) {
        self.table.fail(now, Some(error));
    }

    pub(super) fn conditions(&self) -> [(ProblemKind, &Condition); 3] {
        [
            (ProblemKind::OutboxUnreadable, &self.table),
            (ProblemKind::OutboxDead, &self.dead),
            (ProblemKind::OutboxLate, &self.late),
        ]
    }
}

fn look(condition: &mut Condition, now: Instant, error: Option<String>) {
    match error {
        Some(error) => condition.fail(now, Some(error)),
        None => condition.recover(now),
    }
}
