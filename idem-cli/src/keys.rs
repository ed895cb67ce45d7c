//! `idem keys`: looks at keys, and changes one.

use idem_amqp::{
    handler::Outcome,
    operator::{Action, Listing},
};

use crate::{
    arguments::{Change, KeysCommand, StoreArguments},
    cache, change,
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
    let cache = cache::open(store)?;
    let cache = cache.as_ref();
    let store = open(store, Tables::MustExist).await?;
    let change = async |change: &Change, action, completion| {
        let output = output.optional();
        change::run(&store, cache, &output, change, action, completion).await
    };
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
        KeysCommand::Show { key } => show::run(&store, cache, output, &key).await,
        KeysCommand::Release(which) => change(&which, Action::Release, None).await,
        KeysCommand::Forget(which) => change(&which, Action::Forget, None).await,
        KeysCommand::Complete {
            change: which,
            outcome,
            retention,
        } => {
            // Only looked at: made anew from a value, a number of many digits would be another one.
            serde_json::from_str::<serde_json::Value>(&outcome)
                .map_err(|error| Error::Usage(format!("the outcome is no JSON: {error}")))?;
            let completion = Some((Outcome::new(outcome), retention));
            change(&which, Action::Complete, completion).await
        }
    }
}
