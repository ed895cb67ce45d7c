//! What is counted of records that are done with, and who is told.

use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use idem_core::{Key, executor::ExecutionKind, settlement::Settlement};

use crate::{Record, consumed_topic::ConsumedTopic, runner::Ended};

mod failure_log;

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
    /// How many were given up and are kept nowhere, because their handler's policy says so.
    pub dropped: u64,
}

impl WorkerStats {
    /// How many records ended in this way.
    pub fn count(&self, kind: ExecutionKind) -> u64 {
        self.outcomes.get(&kind).copied().unwrap_or(0)
    }
}

/// `executed=3 duplicate=1 dead_letters=0 retries=0 dropped=0`
impl fmt::Display for WorkerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.outcomes {
            write!(f, "{}={count} ", kind.label())?;
        }
        write!(
            f,
            "dead_letters={} retries={} dropped={}",
            self.dead_letters, self.retries, self.dropped
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

    pub(crate) fn note_settled(&self, consumed: &ConsumedTopic, record: &Record, ended: &Ended) {
        self.count(ended);
        consumed.meters.count(ended.kind, ended.settlement);
        let settled = Settled {
            handler: consumed.handler,
            record,
            key: ended.key.as_ref(),
            kind: ended.kind,
            settlement: ended.settlement,
            attempt: ended.attempt,
            error: ended.error.as_deref(),
        };
        let lines = &consumed.failure_lines;
        failure_log::tell(lines, Instant::now(), &settled, &consumed.dead_letters);
        if let Some(observer) = &self.observer
            && catch_unwind(AssertUnwindSafe(|| observer(&settled))).is_err()
        {
            tracing::error!("the observer of settled records panicked");
        }
    }

    fn count(&self, ended: &Ended) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.outcomes.entry(ended.kind).or_default() += 1;
        match ended.settlement {
            Settlement::DeadLetter(_) => counts.dead_letters += 1,
            Settlement::Retry { .. } => counts.retries += 1,
            Settlement::Drop(_) => counts.dropped += 1,
            _ => {}
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
    use std::time::Duration;

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
            tally.note_settled(&consumed, &Record::at_offset(offset), end);
        }
        let stats = tally.stats();
        let counts = [ExecutionKind::Executed, ExecutionKind::Rejected].map(|it| stats.count(it));
        assert_eq!((counts, stats.dead_letters), ([1, 1], 1));
        assert_eq!(*told.lock().unwrap(), [0, 1]);
    }

    /// Those of `idem-amqp`, of a topic instead of a queue. What has not come to pass is there as a zero.
    #[cfg(feature = "metrics")]
    #[test]
    fn records_are_measured_by_topic_handler_outcome_and_settlement() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let measured = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let handler = NotingHandler::new(&WatchedMarks::new());
            let cluster = Cluster::new("localhost:1");
            let retried = consumed(Topic::new("postings.again"), true, &cluster, &handler);
            let consumed = consumed(Topic::new("postings"), false, &cluster, &handler);
            let tally = Tally::new(None);
            let record = Record::at_offset(0);
            let done = ended(ExecutionKind::Executed, Settlement::Ack);
            let dropped = Settlement::Drop(Reason::Exhausted);
            tally.note_settled(&consumed, &record, &done);
            tally.note_settled(&consumed, &record, &done);
            let dropped = ended(ExecutionKind::Exhausted, dropped);
            tally.note_settled(&consumed, &record, &dropped);
            let dead = Settlement::DeadLetter(Reason::Exhausted);
            tally.note_settled(&consumed, &record, &ended(ExecutionKind::Exhausted, dead));
            let after = Duration::from_secs(5);
            let later = ended(ExecutionKind::Failed, Settlement::Retry { after });
            tally.note_settled(&consumed, &record, &later);
            tally.note_settled(&retried, &record, &done);
        });
        let text = measured.render();
        for (topic, outcome, count) in [
            ("postings", "executed", 2),
            ("postings", "exhausted", 2),
            ("postings", "duplicate", 0),
            ("postings.again", "executed", 1),
            ("postings.again", "exhausted", 0),
        ] {
            let line = format!(
                "idem_outcomes_total{{topic=\"{topic}\",handler=\"ledger.book\",outcome=\"{outcome}\"}} {count}"
            );
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
        for (metric, label, value, count) in [
            ("settlements", "settlement", "ack", 2),
            ("settlements", "settlement", "dead-letter", 1),
            ("settlements", "settlement", "retry", 1),
            ("settlements", "settlement", "dropped", 1),
            ("dead_letters", "reason", "exhausted", 1),
            ("dead_letters", "reason", "rejected", 0),
        ] {
            let line = format!(
                "idem_{metric}_total{{topic=\"postings\",handler=\"ledger.book\",{label}=\"{value}\"}} {count}"
            );
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_is_dropped_is_counted_apart_from_dead_letters_and_retries() {
        let handler = NotingHandler::new(&WatchedMarks::new());
        let cluster = Cluster::new("localhost:1");
        let consumed = consumed(Topic::new("postings"), false, &cluster, &handler);
        let tally = Tally::new(None);
        let after = Duration::from_secs(5);
        let ends = [
            Settlement::DeadLetter(Reason::Exhausted),
            Settlement::DeadLetter(Reason::Exhausted),
            Settlement::DeadLetter(Reason::Exhausted),
            Settlement::Retry { after },
            Settlement::Retry { after },
            Settlement::Drop(Reason::Exhausted),
        ];
        for settlement in ends {
            let end = ended(ExecutionKind::Exhausted, settlement);
            tally.note_settled(&consumed, &Record::at_offset(0), &end);
        }
        assert_eq!(
            tally.stats().to_string(),
            "exhausted=6 dead_letters=3 retries=2 dropped=1"
        );
    }
}
