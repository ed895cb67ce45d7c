//! `idem outbox show`

use idem_amqp::outbox::{OutboxEntry, OutgoingContent, OutgoingId, SharedOutbox};
use serde_json::json;

use super::{
    find,
    message::{age, as_json, due},
};
use crate::{error::Error, keys::hex, output::Output};

pub(super) async fn run(
    outbox: &SharedOutbox,
    output: Output,
    id: OutgoingId,
) -> Result<(), Error> {
    let (entry, content) = find(outbox, id).await?;
    let text = std::str::from_utf8(&content.body).ok();
    let mut object = as_json(&entry);
    object["body"] = match text {
        Some(text) => json!({"text": text}),
        None => json!({"hex": hex(&content.body)}),
    };
    output.object(&object)?;
    output.fields(&fields(&entry, &content, text))?;
    Ok(())
}

fn fields(
    entry: &OutboxEntry,
    content: &OutgoingContent,
    text: Option<&str>,
) -> Vec<(&'static str, String)> {
    let length = content.body.len();
    let body = match text {
        Some(text) => format!("{length} bytes: {text}"),
        None => format!("{length} bytes that are no text"),
    };
    let known = [
        ("id", Some(entry.id.to_string())),
        ("message id", Some(entry.message_id.clone())),
        ("state", Some(entry.state.as_str().to_owned())),
        ("due", due(entry)),
        ("age", Some(age(entry))),
        ("attempts", Some(entry.attempts.to_string())),
        ("target", Some(entry.target.clone())),
        ("order", entry.lane.clone()),
        ("error", entry.error.clone()),
        ("body", Some(body)),
    ];
    let known = known.into_iter();
    known
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}
