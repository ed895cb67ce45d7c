//! Where in a stream a handler begins, as an offset: a place that moves is another one when it is asked for again.

use std::time::Duration;

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

/// The offset of the place; none if no message shows it, because none is there.
pub(super) async fn find(
    connection: &Connection,
    name: &str,
    from: StreamOffset,
) -> Result<Option<u64>, Error> {
    if let StreamOffset::First | StreamOffset::Offset(_) = from {
        return Ok(None);
    }
    let is_a_time = matches!(from, StreamOffset::Timestamp(_));
    if is_a_time && let Some((first, _)) = seen(connection, name, from, false).await? {
        return Ok(Some(first));
    }
    // AMQP 0.9.1 tells the end only by a delivery: by that of the last chunk.
    let Some((first, last)) = seen(connection, name, StreamOffset::Last, true).await? else {
        return Ok(None);
    };
    if from == StreamOffset::Last {
        return Ok(Some(first));
    }
    // Messages come, so a second silence says that none is as young. The first one may have been that of a link which
    // other queues had filled.
    if is_a_time && let Some((first, _)) = seen(connection, name, from, false).await? {
        return Ok(Some(first));
    }
    Ok(Some(last.saturating_add(1)))
}

/// The first offset from there on, and the last one that comes soon if that is asked for.
async fn seen(
    connection: &Connection,
    name: &str,
    from: StreamOffset,
    all: bool,
) -> Result<Option<(u64, u64)>, Error> {
    let channel = connection.create_channel().await?;
    let qos = channel.basic_qos(PREFETCH, BasicQosOptions::default());
    qos.await?;
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(name.into(), "".into(), options, from.arguments());
    let mut deliveries = consuming.await?;
    let mut seen = None;
    let mut next = timeout(SOON, deliveries.next()).await;
    let ends = Instant::now() + ALL;
    while let Ok(Some(delivery)) = next {
        let delivery = delivery?;
        if let Some(offset) = stream::offset(&delivery.properties) {
            let (first, _) = seen.unwrap_or((offset, offset));
            seen = Some((first, offset));
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
