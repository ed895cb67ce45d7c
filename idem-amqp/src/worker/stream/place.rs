//! Where in a stream a handler begins, as an offset: a place that moves is another one when it is asked for again.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use lapin::{
    Connection, Error,
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions},
};
use tokio::time::{Instant, timeout, timeout_at};

use crate::wire::{StreamOffset, stream};

/// How long the first message may take to come.
const SOON: Duration = Duration::from_secs(3);

/// How long the other messages of its chunk may take: each, and all of them together.
const NEXT: Duration = Duration::from_millis(250);
const ALL: Duration = Duration::from_secs(2);

const PREFETCH: u16 = 1_000;

/// The offset of the place. None if no message shows it: the stream is empty, or none is as young as a time that has
/// passed.
pub(super) async fn find(
    connection: &Connection,
    name: &str,
    from: StreamOffset,
) -> Result<Option<u64>, Error> {
    if let StreamOffset::First | StreamOffset::Offset(_) = from {
        return Ok(None);
    }
    if let StreamOffset::Timestamp(time) = from {
        let seen = seen(connection, name, from, false).await?;
        // If none is as young, a time that has passed stays the place itself: a silence may also be that of a link
        // which other queues have filled. For a time that has not passed, the end is the place.
        if seen.is_some() || time <= SystemTime::now() {
            return Ok(seen.map(|seen| seen.first));
        }
    }
    // AMQP 0.9.1 tells the end only by a delivery: by that of the last chunk.
    let seen = seen(connection, name, StreamOffset::Last, true).await?;
    Ok(seen.map(|seen| match from {
        StreamOffset::Last => seen.first,
        // Nobody knows of what comes late whether it was published only after the question, to a stream that was empty.
        _ if seen.is_late => seen.first,
        _ => seen.last.saturating_add(1),
    }))
}

/// Messages that have come.
#[derive(Clone, Copy)]
struct Seen {
    first: u64,
    last: u64,
    /// Whether the first one did not come at once.
    is_late: bool,
}

/// The first message from there on, and the last one that comes soon if that is asked for.
async fn seen(
    connection: &Connection,
    name: &str,
    from: StreamOffset,
    all: bool,
) -> Result<Option<Seen>, Error> {
    let channel = connection.create_channel().await?;
    let qos = channel.basic_qos(PREFETCH, BasicQosOptions::default());
    qos.await?;
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(name.into(), "".into(), options, from.arguments());
    let mut deliveries = consuming.await?;
    let asked = Instant::now();
    let mut seen: Option<Seen> = None;
    let mut next = timeout(SOON, deliveries.next()).await;
    let ends = Instant::now() + ALL;
    while let Ok(Some(delivery)) = next {
        let delivery = delivery?;
        if let Some(offset) = stream::offset(&delivery.properties) {
            let first = seen.unwrap_or_else(|| Seen {
                first: offset,
                last: offset,
                is_late: asked.elapsed() > NEXT,
            });
            seen = Some(Seen {
                last: offset,
                ..first
            });
            if !all {
                break;
            }
        }
        // Credit for more.
        channel
            .basic_ack(delivery.delivery_tag, BasicAckOptions::default())
            .await?;
        next = timeout_at(ends.min(Instant::now() + NEXT), deliveries.next()).await;
    }
    let _ = channel.close(200, "done".into()).await;
    Ok(seen)
}
