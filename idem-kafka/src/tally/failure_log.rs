//! Tells the log of each record that is given up: which topic it is in now, or that it is kept nowhere.
//!
//! What must stay true: only a record that is in the dead-letter topic is said to be there.

use std::time::Instant;

use idem_core::{__telemetry::LogLines, settlement::Settlement};

use super::Settled;

/// Writes a line if the record is given up, and `lines` has room for one.
pub(super) fn tell(lines: &LogLines, now: Instant, settled: &Settled<'_>, dead_letters: &str) {
    let (reason, to, next) = match settled.settlement {
        Settlement::DeadLetter(reason) => (
            reason,
            Some(dead_letters),
            "it went to the dead-letter topic",
        ),
        Settlement::Drop(reason) => (
            reason,
            None,
            "it is dropped: passed by the mark, and kept nowhere, as its policy says",
        ),
        _ => return,
    };
    let Some(left_out) = lines.next(now) else {
        return;
    };
    tracing::warn!(
        handler = settled.handler,
        topic = settled.record.topic(),
        partition = settled.record.partition(),
        offset = settled.record.offset(),
        key = settled.key.map(tracing::field::display),
        attempt = settled.attempt,
        error = settled.error,
        to,
        reason = reason.as_str(),
        left_out = (left_out > 0).then_some(left_out),
        "a record could not be handled: {next}"
    );
}

#[cfg(test)]
mod tests {
    use std::{
        io, mem,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use idem_core::{executor::ExecutionKind, settlement::Reason};

    use super::*;
    use crate::Record;

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

    /// What is written of records that end so, each so long after the first.
    fn told(ends: &[(Duration, Settlement)]) -> Vec<String> {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        // Of two, each is asked about a line that a test on another thread, where nobody listens, writes first.
        let _other = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        let (lines, begin, record) = (LogLines::default(), Instant::now(), Record::at_offset(3));
        tracing::subscriber::with_default(subscriber, || {
            for (after, settlement) in ends {
                let settled = Settled {
                    handler: "ledger.book",
                    record: &record,
                    key: None,
                    kind: ExecutionKind::Rejected,
                    settlement: *settlement,
                    attempt: Some(1),
                    error: Some("the account is closed"),
                };
                tell(&lines, begin + *after, &settled, "postings.dead");
            }
        });
        log.lines()
    }

    const AT_ONCE: Duration = Duration::ZERO;
    const DEAD: Settlement = Settlement::DeadLetter(Reason::Rejected);
    const DROPPED: Settlement = Settlement::Drop(Reason::Rejected);

    #[test]
    fn of_a_dead_letter_the_log_says_where_it_is() {
        let lines = told(&[(AT_ONCE, DEAD)]);
        let [line] = &lines[..] else {
            panic!("{lines:#?}")
        };
        for part in [
            "WARN",
            "it went to the dead-letter topic",
            r#"to="postings.dead""#,
            r#"reason="rejected""#,
            "offset=3",
            r#"error="the account is closed""#,
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }

    #[test]
    fn of_a_record_that_is_dropped_the_log_names_no_topic_in_which_somebody_might_look_for_it() {
        let lines = told(&[(AT_ONCE, DROPPED)]);
        let [line] = &lines[..] else {
            panic!("{lines:#?}")
        };
        assert!(line.contains("kept nowhere"), "{line}");
        assert!(line.contains(r#"reason="rejected""#), "{line}");
        for part in ["dead", " to="] {
            assert!(!line.contains(part), "{part}: {line}");
        }
    }

    #[test]
    fn what_is_done_or_comes_again_is_worth_no_line() {
        let after = Duration::from_secs(5);
        let lines = told(&[
            (AT_ONCE, Settlement::Ack),
            (AT_ONCE, Settlement::Retry { after }),
        ]);
        assert!(lines.is_empty(), "{lines:#?}");
    }

    #[test]
    fn of_fifteen_in_a_second_ten_are_told_and_the_next_line_counts_the_other_five() {
        let mut ends = vec![(AT_ONCE, DEAD); 15];
        ends.extend([(Duration::from_secs(1), DROPPED); 2]);
        let lines = told(&ends);
        assert_eq!(lines.len(), 12, "{lines:#?}");
        let counting: Vec<_> = (0..lines.len())
            .filter(|at| lines[*at].contains("left_out"))
            .collect();
        assert_eq!(counting, [10], "{lines:#?}");
        assert!(lines[10].contains("left_out=5"), "{lines:#?}");
    }
}
