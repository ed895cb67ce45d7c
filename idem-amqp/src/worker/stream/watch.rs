//! What is told of a stream while it is read: that messages were removed before they came, that the mark stands still
//! or the stream stops at a message, and how far it is behind.
//!
//! `StreamReader::keep` runs it beside the saving of the mark. What must stay true: it asks the broker seldom, and a
//! look that fails changes nothing.

use std::{convert::Infallible, time::Duration};

use lapin::Connection;
use tokio::time::{Instant, sleep};

use super::{StreamReader, look::first_offset, reading::Reading};
use crate::wire::StreamOffset;

const EVERY: Duration = Duration::from_secs(1);

/// Between two looks at the stream's last chunk.
const LAG: Duration = Duration::from_secs(30);

/// Between two looks at where the stream begins. Holes in its offsets ask for one, and most are the broker's own.
const TRUNCATION: Duration = Duration::from_mins(1);

pub(super) async fn watch(
    reader: &StreamReader,
    reading: &Reading,
    connection: &Connection,
) -> Infallible {
    let stands = reader.marks.patience();
    // The tag that holds the mark up, and since when.
    let mut front: Option<(u64, Instant)> = None;
    let mut is_told = false;
    let mut hole = None;
    let (mut lag_due, mut truncation_due) = (Instant::now(), Instant::now());
    loop {
        let now = Instant::now();
        let (waits, mark) = {
            let prefix = reading.prefix();
            (prefix.front(), prefix.mark())
        };
        front = waits.map(|tag| match front {
            Some((same, since)) if same == tag => (tag, since),
            _ => (tag, now),
        });
        let waited = front.map_or(Duration::ZERO, |(_, since)| now - since);
        reader.meters.reads(mark.unwrap_or(0), waited);
        let stopped = reading.stops.is_stopped();
        reader.meters.stops(stopped);
        let queue = reader.queue.name();
        reader
            .health
            .stops(queue, stopped.then(|| mark.unwrap_or(0)));
        if stopped {
            // That is told, and what it says of the mark then is no more true when it goes on.
            is_told = false;
            reader.health.stands_still(queue, None);
        } else if (waited > stands) != is_told {
            is_told = !is_told;
            tell_stall(reader, reading, is_told.then_some(waited));
        }
        if now >= truncation_due {
            hole = hole.or_else(|| reading.prefix().take_hole());
            if let Some(begins) = hole {
                truncation_due = now + TRUNCATION;
                let first = first_offset(connection, reader.queue.name(), StreamOffset::First);
                // Without an answer it is asked again, after the same pause.
                if let Ok(Some(first)) = first.await {
                    hole = None;
                    if first > begins {
                        reader.truncated(begins, first);
                    }
                }
            }
        }
        if cfg!(feature = "metrics") && now >= lag_due {
            // Not all workers at the same time.
            lag_due = now + LAG.mul_f64(0.75 + fastrand::f64() / 4.0);
            let last = first_offset(connection, reader.queue.name(), StreamOffset::Last).await;
            if let (Ok(Some(last)), Some(mark)) = (last, mark) {
                reader.meters.lags(last.saturating_sub(mark));
            }
        }
        sleep(EVERY).await;
    }
}

/// The mark stands still: one message holds it up, and soon all behind it.
fn tell_stall(reader: &StreamReader, reading: &Reading, lasting: Option<Duration>) {
    let queue = reader.queue.name();
    let Some(lasting) = lasting else {
        tracing::info!(queue, "the mark of the stream moves again");
        return reader.health.stands_still(queue, None);
    };
    let (mark, done) = {
        let prefix = reading.prefix();
        (prefix.mark().unwrap_or(0), prefix.done_above())
    };
    tracing::warn!(
        queue,
        mark,
        done_above = done,
        lasting = ?Duration::from_secs(lasting.as_secs()),
        "the mark of the stream stands still: the message there is not done. The log says what it waits for; at 1024 \
         done above it, nothing more is started"
    );
    let text = format!("the message at {mark} is not done; {done} behind it are");
    reader.health.stands_still(queue, Some(text));
}
