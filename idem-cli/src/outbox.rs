//! `idem outbox`: looks at what was committed and is not yet published, changes it, and publishes it.

use idem_amqp::outbox::{OutboxEntry, OutboxListing, OutgoingContent, OutgoingId, SharedOutbox};

use crate::{
    arguments::{OutboxCommand, StoreArguments},
    error::Error,
    output::Output,
    store::{Tables, open},
};

mod change;
mod list;
mod message;
mod relay;
mod show;

pub(crate) async fn run(
    store: &StoreArguments,
    amqp: &str,
    output: &Output,
    command: OutboxCommand,
) -> Result<(), Error> {
    let store = open(store, Tables::MustExist).await?;
    let outbox = store.outbox().ok_or_else(|| {
        let text = "this store has no outbox: PostgreSQL and SQLite have one";
        Error::Usage(text.into())
    })?;
    let changed = output.optional();
    match command {
        OutboxCommand::List { state, key, limit } => {
            let listing = OutboxListing {
                state: state.map(Into::into),
                prefix: key.unwrap_or_default(),
                ..OutboxListing::default()
            };
            list::run(&outbox, *output, listing, limit).await
        }
        OutboxCommand::Show { id } => show::run(&outbox, *output, id).await,
        OutboxCommand::Retry { id: None, sure, .. } => {
            change::retry_all(&outbox, changed, &sure).await
        }
        OutboxCommand::Retry {
            id: Some(id), sure, ..
        } => change::retry(&outbox, changed, id, &sure).await,
        OutboxCommand::Discard { id, sure } => change::discard(&outbox, changed, id, &sure).await,
        OutboxCommand::Redirect { id, to, sure } => {
            change::redirect(&outbox, changed, id, &to, &sure).await
        }
        OutboxCommand::Cancel { id, sure } => change::cancel(&outbox, changed, id, &sure).await,
        OutboxCommand::Relay => relay::run(outbox, amqp, changed).await,
    }
}

/// A message, with its content.
async fn find(
    outbox: &SharedOutbox,
    id: OutgoingId,
) -> Result<(OutboxEntry, OutgoingContent), Error> {
    outbox.show(id).await?.ok_or_else(|| not_found(id))
}

fn not_found(id: OutgoingId) -> Error {
    Error::NotFound(format!("the outbox has no message `{id}`"))
}
