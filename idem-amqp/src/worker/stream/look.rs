//! What the doctor finds out about a stream that only its messages show: whether it still reaches the mark.

use std::time::Duration;

use futures_util::StreamExt as _;
use idem_core::{executor::StreamMarks, store::Finding};
use lapin::{
    Connection, Error,
    options::{BasicConsumeOptions, BasicQosOptions},
};
use tokio::time::timeout;

use crate::{
    topology::Queue,
    wire::{StreamOffset, stream},
};

/// How long the first message may take to come.
const SOON: Duration = Duration::from_secs(3);

pub(in crate::worker) async fn look(
    connection: &Connection,
    queue: &Queue,
    marks: &StreamMarks,
) -> Option<Finding> {
    let name = queue.name();
    let state = match marks.look().await {
        Ok(state) => state?,
        Err(error) => {
            let text = format!("the mark of `{name}` cannot be looked up: {error}");
            return Some(Finding::error("stream-mark", text));
        }
    };
    if let Some(mark) = state.beyond_end() {
        return Some(beyond_end(name, mark));
    }
    let mark = state.mark?;
    let first = first_offset(connection, name, StreamOffset::First).await;
    if let Some(first) = first.ok().flatten()
        && first > mark
    {
        return Some(Finding::warning(
            "stream-truncated",
            format!(
                "the stream `{name}` begins with {first}, and its handler is at {mark}: what was between was removed \
                 before it was handled; let the stream keep more, or its workers be faster"
            ),
        ));
    }
    let below = mark.checked_sub(1)?;
    let found = first_offset(connection, name, StreamOffset::Offset(below)).await;
    found.ok()?.is_none().then(|| beyond_end(name, mark))
}

fn beyond_end(name: &str, mark: u64) -> Finding {
    Finding::error(
        "stream-mark-beyond-end",
        format!(
            "the stream `{name}` ends before its handler's mark, {mark}: it was deleted and made anew, or set back; it \
             is not read before the mark is set"
        ),
    )
}

/// The offset of the first delivery, if any comes soon.
pub(super) async fn first_offset(
    connection: &Connection,
    name: &str,
    from: StreamOffset,
) -> Result<Option<u64>, Error> {
    let channel = connection.create_channel().await?;
    channel.basic_qos(1, BasicQosOptions::default()).await?;
    let consuming = channel.basic_consume(
        name.into(),
        "".into(),
        BasicConsumeOptions::default(),
        from.arguments(),
    );
    let mut deliveries = consuming.await?;
    let first = timeout(SOON, deliveries.next()).await;
    let _ = channel.close(200, "done".into()).await;
    let delivery = first.ok().flatten().transpose()?;
    Ok(delivery.and_then(|delivery| stream::offset(&delivery.properties)))
}
