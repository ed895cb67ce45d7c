//! Tells the log of each attempt that failed, of each message that is not handled, and of each that was handled only
//! because its handler is observed: a line each, but no more lines than can be read. Nobody should have to read dead
//! letters to learn that there are some. What went well is worth no line: at `INFO` a log holds start and stop.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use idem_core::{
    __telemetry::LogLines,
    Key, StoreError,
    executor::ExecutionKind,
    settlement::{Reason, Settlement},
};

/// What of one queue is told to the log.
#[derive(Debug)]
pub(crate) struct FailureLog {
    ends: LogLines,
    /// That messages wait for the store.
    outage: LogLines,
    /// That they wait for a person to mend a record.
    records: LogLines,
}

impl Default for FailureLog {
    fn default() -> Self {
        Self {
            ends: LogLines::default(),
            outage: LogLines::of_an_outage(),
            records: LogLines::default(),
        }
    }
}

/// How an attempt, or a message, ended.
#[derive(Debug)]
pub(crate) struct AttemptEnd<'a> {
    pub(crate) queue: &'a str,
    pub(crate) key: Option<&'a Key>,
    pub(crate) kind: ExecutionKind,
    pub(crate) attempt: Option<u32>,
    pub(crate) error: Option<&'a str>,
    /// How it would have ended if its handler were not only observed.
    pub(crate) would_have_been: Option<ExecutionKind>,
    /// Whether a person has sent a dead letter again.
    pub(crate) replay: bool,
    pub(crate) settlement: Settlement,
}

impl FailureLog {
    /// Writes a line if this is worth one, and there is room for it.
    pub(crate) fn tell(&self, end: &AttemptEnd<'_>) {
        self.tell_at(Instant::now(), end);
    }

    /// Says that a message waits because the store cannot be asked: a line each minute, however many wait.
    pub(crate) fn waits_for_store(&self, queue: &str, key: &Key, tries: u32, error: &StoreError) {
        self.waits_for_store_at(Instant::now(), queue, key, tries, error);
    }

    fn waits_for_store_at(
        &self,
        now: Instant,
        queue: &str,
        key: &Key,
        tries: u32,
        error: &StoreError,
    ) {
        let error: &(dyn Error + 'static) = error;
        match self.outage.next(now) {
            Some(left_out) => tracing::warn!(
                queue,
                %key,
                tries,
                error,
                left_out = (left_out > 0).then_some(left_out),
                "the store cannot be asked, messages wait"
            ),
            None => {
                tracing::debug!(queue, %key, tries, error, "the store cannot be asked, the message waits");
            }
        }
    }

    /// Says that a message waits because of its key's record: a line each, but no more than can be read.
    pub(crate) fn waits_for_record(&self, queue: &str, key: &Key, tries: u32, error: &StoreError) {
        let Some(left_out) = self.records.next(Instant::now()) else {
            return;
        };
        let error: &(dyn Error + 'static) = error;
        tracing::error!(
            queue,
            %key,
            tries,
            error,
            left_out = (left_out > 0).then_some(left_out),
            "the store's record of this key cannot be read: mend or delete it; the message waits"
        );
    }

    fn tell_at(&self, now: Instant, end: &AttemptEnd<'_>) {
        let Some(what) = what(end) else {
            return;
        };
        let Some(left_out) = self.ends.next(now) else {
            return;
        };
        let (next, after) = next(end.settlement);
        tracing::warn!(
            queue = end.queue,
            key = end.key.map(tracing::field::display),
            attempt = end.attempt,
            error = end.error,
            would_have_been = end.would_have_been.map(tracing::field::display),
            after = after.map(tracing::field::debug),
            left_out = (left_out > 0).then_some(left_out),
            "{what}: {next}"
        );
    }
}

/// What has happened, if it is worth a line.
fn what(end: &AttemptEnd<'_>) -> Option<&'static str> {
    use ExecutionKind as Kind;
    Some(match end.kind {
        Kind::Failed => "an attempt failed",
        Kind::LeaseLost => {
            "the lease was lost while the handler ran: another worker has the key, or its record is gone"
        }
        Kind::Rejected => "the handler rejected a message",
        Kind::Exhausted => "the last attempt failed",
        Kind::Undecodable if end.settlement == Settlement::DeadLetter(Reason::NoRoute) => {
            "no route takes a message"
        }
        Kind::Undecodable => "a message cannot be decoded",
        Kind::Invalid => "a message is not valid",
        Kind::Keyless => "a message has no usable key",
        Kind::KeyReused => "a key came again with other content",
        Kind::InDoubt => "an earlier attempt ended without a word",
        Kind::Duplicate if end.settlement == Settlement::DeadLetter(Reason::Duplicate) => {
            "a copy came of a message that is done"
        }
        Kind::Conflict
            if matches!(
                end.settlement,
                Settlement::DeadLetter(_) | Settlement::Drop(_)
            ) =>
        {
            "a copy came of a message that is being handled"
        }
        Kind::Duplicate if end.replay => {
            "a dead letter was sent again, and its work had been done already"
        }
        _ if matches!(
            end.settlement,
            Settlement::DeadLetter(_) | Settlement::Drop(_)
        ) =>
        {
            "a message cannot be handled"
        }
        _ if end.would_have_been.is_some() => "a message ran because its handler is observed",
        _ => return None,
    })
}

/// What becomes of the message, and after how long.
fn next(settlement: Settlement) -> (&'static str, Option<Duration>) {
    match settlement {
        Settlement::Ack => ("it is done with", None),
        Settlement::DeadLetter(_) => ("it goes to the dead-letter queue", None),
        Settlement::Drop(_) => (
            "it is dropped: acknowledged, and kept nowhere, as its policy says",
            None,
        ),
        Settlement::Retry { after } => ("it comes again from the retry ladder", Some(after)),
        Settlement::Requeue { after } => ("it goes back to its queue", Some(after)),
        Settlement::Hold { recheck } | Settlement::Stop { recheck, .. } => {
            ("it is tried again here", Some(recheck))
        }
        // Also what a later version of the engine adds.
        _ => ("the broker delivers it again", None),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io, mem,
        sync::{Arc, Mutex},
    };

    use super::*;

    /// What was written, by `tracing_subscriber::fmt`.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn lines(&self) -> Vec<String> {
            let written = mem::take(&mut *self.0.lock().unwrap());
            let text = String::from_utf8(written).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn of_fifteen_failures_in_a_second_ten_are_told_and_the_next_line_counts_the_other_five() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let after = Duration::from_secs(3);
        let failed = end(ExecutionKind::Failed, Settlement::Requeue { after });
        let (failures, begin) = (FailureLog::default(), Instant::now());
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..15 {
                failures.tell_at(begin, &failed);
            }
            let lines = log.lines();
            assert_eq!(lines.len(), 10, "{lines:#?}");
            let counts = lines.iter().filter(|line| line.contains("left_out"));
            assert_eq!(counts.count(), 0, "{lines:#?}");

            failures.tell_at(begin + Duration::from_secs(1), &failed);
            failures.tell_at(begin + Duration::from_secs(1), &failed);
            let lines = log.lines();
            assert_eq!(lines.len(), 2, "{lines:#?}");
            assert!(lines[0].contains("left_out=5"), "{lines:#?}");
            assert!(!lines[1].contains("left_out"), "{lines:#?}");
        });
    }

    #[test]
    fn an_outage_of_the_store_is_told_once_a_minute_however_many_messages_wait() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let (failures, begin) = (FailureLog::default(), Instant::now());
        let (key, error) = (
            Key::new("orders", 17).unwrap(),
            StoreError::unavailable("no route"),
        );
        tracing::subscriber::with_default(subscriber, || {
            for second in 0..60 {
                let now = begin + Duration::from_secs(second);
                failures.waits_for_store_at(now, "orders", &key, 1, &error);
            }
            let lines = log.lines();
            assert_eq!(lines.len(), 1, "{lines:#?}");
            let now = begin + Duration::from_mins(1);
            failures.waits_for_store_at(now, "orders", &key, 9, &error);
            let lines = log.lines();
            assert!(lines[0].contains("left_out=59"), "{lines:#?}");
            assert!(lines[0].contains("no route"), "{lines:#?}");
        });
    }

    #[test]
    fn what_went_well_is_worth_no_line() {
        for kind in [ExecutionKind::Executed, ExecutionKind::Duplicate] {
            assert_eq!(what(&end(kind, Settlement::Ack)), None);
        }
        let hold = Settlement::Hold {
            recheck: Duration::from_secs(1),
        };
        assert_eq!(what(&end(ExecutionKind::Conflict, hold)), None);
        assert_eq!(what(&end(ExecutionKind::Observed, Settlement::Ack)), None);
    }

    #[test]
    fn what_a_person_has_to_know_of_is_worth_a_line() {
        let replay = AttemptEnd {
            replay: true,
            ..end(ExecutionKind::Duplicate, Settlement::Ack)
        };
        let told = what(&replay).unwrap();
        assert!(told.contains("had been done already"), "{told}");
        let observed = AttemptEnd {
            would_have_been: Some(ExecutionKind::Duplicate),
            ..end(ExecutionKind::Observed, Settlement::Ack)
        };
        let told = what(&observed).unwrap();
        assert!(told.contains("observed"), "{told}");
    }

    fn end(kind: ExecutionKind, settlement: Settlement) -> AttemptEnd<'static> {
        AttemptEnd {
            queue: "orders",
            key: None,
            kind,
            attempt: None,
            error: None,
            would_have_been: None,
            replay: false,
            settlement,
        }
    }
}
