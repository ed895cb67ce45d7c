//! Which letters are chosen.

use std::{fmt, sync::Arc, time::SystemTime};

use crate::wire::DeadLetter;

/// Which letters are chosen: those that meet all conditions. A condition that is set several times
/// is met by any of its values.
///
/// ```
/// use idem_amqp::dead_letters::Selection;
///
/// let two = Selection::all().key("orders.charge:o-17").key("orders.charge:o-18");
/// let ten_late_ones = Selection::all().reason("exhausted").limit(10);
/// ```
#[derive(Clone, Default)]
pub struct Selection {
    reasons: Vec<String>,
    keys: Vec<String>,
    message_ids: Vec<String>,
    failed_after: Option<SystemTime>,
    failed_before: Option<SystemTime>,
    conditions: Vec<Condition>,
    limit: Option<usize>,
}

type Condition = Arc<dyn Fn(&DeadLetter) -> bool + Send + Sync>;

impl Selection {
    /// Every letter.
    pub fn all() -> Self {
        Self::default()
    }

    /// Letters with this [`reason`](DeadLetter::reason).
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reasons.push(reason.into());
        self
    }

    /// Letters with this [`key`](DeadLetter::key).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Letters with this message id.
    pub fn message_id(mut self, id: impl Into<String>) -> Self {
        self.message_ids.push(id.into());
        self
    }

    /// Letters whose [`last_failure`](DeadLetter::last_failure) is known, and later than this or
    /// as late.
    pub fn failed_after(mut self, time: SystemTime) -> Self {
        self.failed_after = Some(time);
        self
    }

    /// Letters whose [`last_failure`](DeadLetter::last_failure) is known, and earlier than this.
    pub fn failed_before(mut self, time: SystemTime) -> Self {
        self.failed_before = Some(time);
        self
    }

    /// Letters that meet this condition; set several times, all of them.
    pub fn matching(
        mut self,
        condition: impl Fn(&DeadLetter) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// Selects at most so many letters, those in front; the others are not even looked at.
    pub fn limit(mut self, letters: usize) -> Self {
        self.limit = Some(letters);
        self
    }

    /// Whether a letter meets the conditions.
    pub fn picks(&self, letter: &DeadLetter) -> bool {
        any(&self.reasons, Some(letter.reason()))
            && any(&self.keys, letter.key())
            && any(&self.message_ids, letter.message_id())
            && self.is_in_time(letter.last_failure())
            && self.conditions.iter().all(|condition| condition(letter))
    }

    /// The limit, as a number that is counted down.
    pub(super) fn room(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    fn is_in_time(&self, failed: Option<SystemTime>) -> bool {
        let late_enough = |after| failed.is_some_and(|failed| failed >= after);
        let early_enough = |before| failed.is_some_and(|failed| failed < before);
        self.failed_after.is_none_or(late_enough) && self.failed_before.is_none_or(early_enough)
    }
}

/// Whether a value is one of those wanted, if any are.
fn any(wanted: &[String], value: Option<&str>) -> bool {
    wanted.is_empty() || value.is_some_and(|value| wanted.iter().any(|wanted| wanted == value))
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selection")
            .field("reasons", &self.reasons)
            .field("keys", &self.keys)
            .field("message_ids", &self.message_ids)
            .field("failed_after", &self.failed_after)
            .field("failed_before", &self.failed_before)
            .field("conditions", &self.conditions.len())
            .field("limit", &self.limit)
            .finish()
    }
}

#[cfg(test)]
mod tests;
