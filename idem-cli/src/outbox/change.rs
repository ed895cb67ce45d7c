//! `idem outbox retry`, `discard`, `redirect` and `cancel`: shows what there is, asks, and does it.

use idem_amqp::outbox::{OutboxChange, OutboxState, OutgoingId, SharedOutbox, redirected};
use serde_json::json;

use super::{find, message::line, not_found};
use crate::{
    arguments::{Address, Sure},
    confirm::confirm,
    error::Error,
    output::Output,
};

pub(super) async fn retry_all(
    outbox: &SharedOutbox,
    output: Output,
    sure: &Sure,
) -> Result<(), Error> {
    confirm("Try all messages again that were given up?", sure)?;
    let changed = outbox.change(&OutboxChange::Retry(None)).await?;
    tell(output, "retry", changed, "due again")
}

pub(super) async fn retry(
    outbox: &SharedOutbox,
    output: Output,
    id: OutgoingId,
    sure: &Sure,
) -> Result<(), Error> {
    let (entry, _) = find(outbox, id).await?;
    output.line(line(&entry))?;
    if entry.state != OutboxState::Dead {
        return Err(not_dead(id));
    }
    confirm(&format!("Try `{id}` again?"), sure)?;
    match outbox.change(&OutboxChange::Retry(Some(id))).await? {
        0 => Err(not_dead(id)),
        changed => tell(output, "retry", changed, "due again"),
    }
}

pub(super) async fn discard(
    outbox: &SharedOutbox,
    output: Output,
    id: OutgoingId,
    sure: &Sure,
) -> Result<(), Error> {
    let (entry, _) = find(outbox, id).await?;
    output.line(line(&entry))?;
    confirm(&format!("Discard `{id}`? It is gone for good."), sure)?;
    match outbox.change(&OutboxChange::Discard(id)).await? {
        0 => Err(not_found(id)),
        changed => tell(output, "discard", changed, "discarded"),
    }
}

pub(super) async fn redirect(
    outbox: &SharedOutbox,
    output: Output,
    id: OutgoingId,
    to: &Address,
    sure: &Sure,
) -> Result<(), Error> {
    let (entry, content) = find(outbox, id).await?;
    let (exchange, routing_key) = to.parts();
    let change = redirected(id, content, exchange, routing_key)?;
    output.line(line(&entry))?;
    let question = match exchange {
        "" => format!("Send `{id}` to the queue `{routing_key}` instead, at once?"),
        _ => format!(
            "Send `{id}` to the exchange `{exchange}` with `{routing_key}` instead, at once?"
        ),
    };
    confirm(&question, sure)?;
    match outbox.change(&change).await? {
        0 => Err(not_found(id)),
        changed => tell(output, "redirect", changed, "redirected, and due again"),
    }
}

pub(super) async fn cancel(
    outbox: &SharedOutbox,
    output: Output,
    id: String,
    sure: &Sure,
) -> Result<(), Error> {
    let question = format!("Remove what `{id}` names and is to leave later? It is gone for good.");
    confirm(&question, sure)?;
    match outbox.change(&OutboxChange::Cancel(id.clone())).await? {
        0 => Err(Error::NotFound(format!(
            "no message that is to leave later has the id `{id}` or is of that key"
        ))),
        changed => tell(output, "cancel", changed, "cancelled"),
    }
}

fn not_dead(id: OutgoingId) -> Error {
    Error::Unchanged(format!(
        "`{id}` was not given up, so nothing was done: workers publish it when it is due"
    ))
}

/// `2 messages due again`
fn tell(output: Output, action: &str, changed: u64, done: &str) -> Result<(), Error> {
    let messages = if changed == 1 { "message" } else { "messages" };
    output.line(format!("{changed} {messages} {done}"))?;
    output.object(&json!({"action": action, "changed": changed}))?;
    Ok(())
}
