//! What is counted of records that are done with, and who is told.

use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use idem_core::{Key, executor::ExecutionKind, settlement::Settlement};

use crate::{Record, consumed::Consumed, runner::Ended};

pub(crate) type Observer = Arc<dyn Fn(&Settled<'_>) + Send + Sync>;

/// A record that is done with.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settled<'a> {
    /// The handler's scope.
    pub handler: &'a str,
    /// The record.
    pub record: &'a Record,
    /// Its key, if it has one.
    pub key: Option<&'a Key>,
    /// How it ended.
    pub kind: ExecutionKind,
    /// What became of it.
    pub settlement: Settlement,
    /// Which attempt it was, if its handler ran.
    pub attempt: Option<u32>,
    /// What was wrong, if anything.
    pub error: Option<&'a str>,
}

/// What a worker has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// How records ended, and how many so.
    pub outcomes: BTreeMap<ExecutionKind, u64>,
    /// How many went to a dead-letter topic.
    pub dead_letters: u64,
    /// How many went to a retry topic.
    pub retries: u64,
}

impl WorkerStats {
    /// How many records ended in this way.
    pub fn count(&self, kind: ExecutionKind) -> u64 {
        self.outcomes.get(&kind).copied().unwrap_or(0)
    }
}

/// `executed=3 duplicate=1 dead_letters=0 retries=0`
impl fmt::Display for WorkerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.outcomes {
            write!(f, "{}={count} ", kind.label())?;
        }
        write!(
            f,
            "dead_letters={} retries={}",
            self.dead_letters, self.retries
        )
    }
}

/// Counts what is done with, and tells whoever wants to know.
pub(crate) struct Tally {
    observer: Option<Observer>,
    counts: Mutex<WorkerStats>,
}

impl Tally {
    pub(crate) fn new(observer: Option<Observer>) -> Self {
        Self {
            observer,
            counts: Mutex::default(),
        }
    }

    pub(crate) fn settled(&self, consumed: &Consumed, record: &Record, ended: &Ended) {
        {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.outcomes.entry(ended.kind).or_default() += 1;
            match ended.settlement {
                Settlement::DeadLetter(_) => counts.dead_letters += 1,
                Settlement::Retry { .. } => counts.retries += 1,
                _ => {}
            }
        }
        if let Settlement::DeadLetter(reason) | Settlement::Drop(reason) = ended.settlement {
            tracing::warn!(
                handler = consumed.handler,
                topic = record.topic(),
                partition = record.partition(),
                offset = record.offset(),
                key = ended.key.as_ref().map(tracing::field::display),
                attempt = ended.attempt,
                error = ended.error,
                to = consumed.dead_letters,
                reason = reason.as_str(),
                "a record could not be handled"
            );
        }
        if let Some(observer) = &self.observer {
            let settled = Settled {
                handler: consumed.handler,
                record,
                key: ended.key.as_ref(),
                kind: ended.kind,
                settlement: ended.settlement,
                attempt: ended.attempt,
                error: ended.error.as_deref(),
            };
            if catch_unwind(AssertUnwindSafe(|| observer(&settled))).is_err() {
                tracing::error!("the observer of settled records panicked");
            }
        }
    }

    pub(crate) fn stats(&self) -> WorkerStats {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use idem_core::settlement::Reason;

    use super::*;
    use crate::{
        Cluster, Topic,
        test_doubles::{NotingHandler, WatchedMarks, consumed, ended},
    };

    #[test]
    fn a_record_is_counted_also_if_its_observer_panics() {
        let handler = NotingHandler::new(&WatchedMarks::new());
        let cluster = Cluster::new("localhost:1");
        let consumed = consumed(Topic::new("postings"), false, &cluster, &handler);
        let told = Arc::new(Mutex::new(Vec::new()));
        let observed = Arc::clone(&told);
        let tally = Tally::new(Some(Arc::new(move |settled| {
            observed.lock().unwrap().push(settled.record.offset());
            panic!("it is to");
        })));
        let ends = [
            ended(ExecutionKind::Executed, Settlement::Ack),
            ended(
                ExecutionKind::Rejected,
                Settlement::DeadLetter(Reason::Rejected),
            ),
        ];
        for (offset, end) in (0..).zip(&ends) {
            tally.settled(&consumed, &Record::at_offset(offset), end);
        }
        let stats = tally.stats();
        let counts = [ExecutionKind::Executed, ExecutionKind::Rejected].map(|it| stats.count(it));
        assert_eq!((counts, stats.dead_letters), ([1, 1], 1));
        assert_eq!(*told.lock().unwrap(), [0, 1]);
    }
}
