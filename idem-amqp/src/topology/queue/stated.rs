//! What AMQP does not tell about a queue, and its user knows.

use std::time::Duration;

use crate::topology::Queue;

/// What the user says about a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stated {
    delivery_limit: Option<u64>,
    consumer_timeout: Option<Duration>,
    accepted: Vec<String>,
}

/// How often a queue whose limit is not known may return a message: the least that a broker sets
/// by itself.
const LEAST_LIMIT: u64 = 20;

impl Queue {
    /// Assumes how often the broker returns a message of this queue before it drops or dead-letters
    /// it by itself, where a policy says so, or an existing queue's arguments cannot be looked up.
    /// The lower of both counts.
    ///
    /// Close to the limit a message is kept in the worker, and not returned.
    pub fn assume_delivery_limit(mut self, returns: u64) -> Self {
        self.stated.delivery_limit = Some(returns);
        self
    }

    /// Assumes the broker's `consumer_timeout`, if it is not the default of 30 minutes. What a
    /// worker has not settled for that long, the broker takes back.
    pub fn assume_consumer_timeout(mut self, timeout: Duration) -> Self {
        self.stated.consumer_timeout = Some(timeout);
        self
    }

    /// Accepts what the doctor finds under this name (`Finding::code`) about this queue: because it
    /// does not matter, or because a policy, which AMQP does not tell, sees to it. It is reported as
    /// a note then, and does not keep the worker from starting.
    pub fn accept(mut self, code: impl Into<String>) -> Self {
        self.stated.accepted.push(code.into());
        self
    }

    pub(crate) fn stated_limit(&self) -> Option<u64> {
        self.stated.delivery_limit
    }

    pub(crate) fn stated_timeout(&self) -> Option<Duration> {
        self.stated.consumer_timeout
    }

    pub(crate) fn accepted(&self) -> &[String] {
        &self.stated.accepted
    }

    pub(crate) fn accepts(&self, code: &str) -> bool {
        self.stated.accepted.iter().any(|accepted| accepted == code)
    }

    /// How often a message may be returned, when an existing queue's arguments allow `limit`, or
    /// nothing is known about them.
    pub(crate) fn returns_allowed(&self, limit: Option<u64>) -> u64 {
        let own = match self.declared() {
            Some(_) => Self::DELIVERY_LIMIT,
            None => limit.or(self.stated.delivery_limit).unwrap_or(LEAST_LIMIT),
        };
        own.min(self.stated.delivery_limit.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_be_returned_as_often_as_the_lowest_limit_allows() {
        let declared = Queue::quorum("q");
        let existing = Queue::existing("q");
        let stated = |queue: &Queue, limit| queue.clone().assume_delivery_limit(limit);
        let table = [
            (declared.clone(), None, 1000),
            (stated(&declared, 50), None, 50),
            (stated(&declared, 5000), None, 1000),
            (existing.clone(), None, 20),
            (existing.clone(), Some(5), 5),
            (existing.clone(), Some(200), 200),
            (stated(&existing, 200), None, 200),
            (stated(&existing, 200), Some(5), 5),
            (stated(&existing, 3), Some(5), 3),
        ];
        for (queue, limit, expected) in table {
            assert_eq!(
                queue.returns_allowed(limit),
                expected,
                "{queue:?} {limit:?}"
            );
        }
    }
}
