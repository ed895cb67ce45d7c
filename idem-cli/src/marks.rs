//! `idem marks`: how far handlers are in streams and in partitions of Kafka, and where they are to go on.

use idem_amqp::{
    AnyStore, Key,
    store::{StreamState, StreamStore as _},
};
use serde_json::json;

use crate::{
    arguments::{MarksCommand, Place, StoreArguments},
    confirm::confirm,
    error::Error,
    output::Output,
    span::words,
    store::{Tables, open},
};

pub(crate) async fn run(
    store: &StoreArguments,
    output: &Output,
    command: MarksCommand,
) -> Result<(), Error> {
    let store = open(store, Tables::MustExist).await?;
    match command {
        MarksCommand::Show(place) => {
            let (_, state) = find(&store, &place).await?;
            show(*output, &place, state)
        }
        MarksCommand::Set {
            place,
            offset,
            new,
            sure,
        } => {
            let output = output.optional();
            let key = if new {
                named(&place)?
            } else {
                let (key, state) = find(&store, &place).await?;
                output.line(format!("{place} is at {}", mark(state)))?;
                key
            };
            let question = format!(
                "Set the mark of {place} to {offset}? What is above it is read, also if it was before."
            );
            confirm(&question, &sure)?;
            store.set_mark(&key, Some(offset)).await?;
            output.line(format!("{place} goes on at {offset}"))?;
            output.object(&json!({"action": "set", "scope": place.scope, "stream": place.stream, "mark": offset}))?;
            Ok(())
        }
        MarksCommand::Forget { place, sure } => {
            let output = output.optional();
            let (key, state) = find(&store, &place).await?;
            output.line(format!("{place} is at {}", mark(state)))?;
            let question = format!("Forget the mark of {place}? It begins anew.");
            confirm(&question, &sure)?;
            store.set_mark(&key, None).await?;
            output.line(format!("{place} begins anew"))?;
            output.object(&json!({"action": "forget", "scope": place.scope, "stream": place.stream, "mark": null}))?;
            Ok(())
        }
    }
}

fn named(place: &Place) -> Result<Key, Error> {
    place.key().map_err(|error| Error::Usage(error.to_string()))
}

async fn find(store: &AnyStore, place: &Place) -> Result<(Key, StreamState), Error> {
    let key = named(place)?;
    match store.look_at_stream(&key).await? {
        Some(state) => Ok((key, state)),
        None => Err(Error::NotFound(format!(
            "the store has no mark of {place}: no worker has read it for this handler; a partition of Kafka is `kafka:TOPIC:PARTITION`"
        ))),
    }
}

fn show(output: Output, place: &Place, state: StreamState) -> Result<(), Error> {
    let is_read = !state.remaining.is_zero();
    let reader = if is_read {
        format!("by a worker, whose lease lasts {}", words(state.remaining))
    } else {
        "by nobody".to_owned()
    };
    output.fields(&[
        ("handler", place.scope.clone()),
        ("stream", place.stream.clone()),
        ("mark", mark(state)),
        ("read", reader),
    ])?;
    output.object(&json!({
        "scope": place.scope,
        "stream": place.stream,
        "mark": state.beyond_end().or(state.mark),
        "beyond_end": state.beyond_end().is_some(),
        "lease_seconds": is_read.then_some(state.remaining.as_secs_f64()),
    }))?;
    Ok(())
}

fn mark(state: StreamState) -> String {
    match (state.beyond_end(), state.mark) {
        (Some(mark), _) => {
            format!("{mark}, which is beyond the end: it is not read before the mark is set")
        }
        (None, Some(mark)) => mark.to_string(),
        (None, None) => "none: it begins where its worker is told to".to_owned(),
    }
}
