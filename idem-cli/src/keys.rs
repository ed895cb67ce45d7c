//! `idem keys`: looks at keys, and changes one.

use idem_amqp::{
    handler::Outcome,
    operator::{Action, Listing},
};

use crate::{
    arguments::{KeysCommand, StoreArguments},
    change,
    error::Error,
    output::Output,
    store::{Tables, open},
};

mod list;
mod record;
mod show;

pub(crate) use record::{hex, rest};

pub(crate) async fn run(
    store: &StoreArguments,
    output: &Output,
    command: KeysCommand,
) -> Result<(), Error> {
    let store = open(store, Tables::MustExist).await?;
    match command {
        KeysCommand::List {
            state,
            older_than,
            scope,
            begins,
            limit,
        } => {
            let prefix = scope.map(|scope| format!("{scope}:")).or(begins);
            let listing = Listing::all()
                .state(state)
                .older_than(older_than.unwrap_or_default())
                .prefix(prefix.unwrap_or_default());
            list::run(&store, output, listing, limit).await
        }
        KeysCommand::Show { key } => show::run(&store, output, &key).await,
        KeysCommand::Release(change) => {
            change::run(&store, &output.optional(), &change, Action::Release, None).await
        }
        KeysCommand::Forget(change) => {
            change::run(&store, &output.optional(), &change, Action::Forget, None).await
        }
        KeysCommand::Complete {
            change,
            outcome,
            retention,
        } => {
            let value: serde_json::Value = serde_json::from_str(&outcome)
                .map_err(|error| Error::Usage(format!("the outcome is no JSON: {error}")))?;
            let completion = Some((Outcome::new(value.to_string()), retention));
            change::run(
                &store,
                &output.optional(),
                &change,
                Action::Complete,
                completion,
            )
            .await
        }
    }
}
