//! A message of the outbox, in words and as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use idem_amqp::outbox::{OutboxEntry, OutboxState};
use serde_json::{Value, json};

use crate::{output::printable, span::words};

/// `orders.charge:o-17#0 to shipping is dead: no queue is bound`
pub(super) fn line(entry: &OutboxEntry) -> String {
    let error = entry.error.as_ref().map(|error| format!(": {error}"));
    printable(&format!(
        "{} to {} is {}{}",
        entry.message_id,
        entry.target,
        entry.state.as_str(),
        error.unwrap_or_default(),
    ))
}

/// `in 23h` or `3m ago`; `None` if it was given up.
pub(super) fn due(entry: &OutboxEntry) -> Option<String> {
    if entry.state == OutboxState::Dead {
        return None;
    }
    let now = SystemTime::now();
    Some(match entry.due.duration_since(now) {
        Ok(until) => format!("in {}", words(until)),
        Err(since) => format!("{} ago", words(since.duration())),
    })
}

pub(super) fn age(entry: &OutboxEntry) -> String {
    let age = SystemTime::now().duration_since(entry.created);
    words(age.unwrap_or_default())
}

/// Every field, times in seconds.
pub(super) fn as_json(entry: &OutboxEntry) -> Value {
    let seconds = |time: SystemTime| {
        let since_1970 = time.duration_since(UNIX_EPOCH);
        since_1970.unwrap_or_default().as_secs_f64()
    };
    json!({
        "id": entry.id.to_string(),
        "message_id": entry.message_id,
        "target": entry.target,
        "order": entry.lane,
        "state": entry.state.as_str(),
        "due": seconds(entry.due),
        "attempts": entry.attempts,
        "error": entry.error,
        "created": seconds(entry.created),
        "bytes": entry.bytes,
    })
}
