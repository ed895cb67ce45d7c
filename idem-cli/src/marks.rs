//! `idem marks`: how far handlers are in streams and in partitions of Kafka, and where they are to go on.

use idem_amqp::{
    AnyStore, Key,
    store::{StreamState, StreamStore as _},
};
use serde_json::{Value, json};

use crate::{
    arguments::{MarksCommand, Place, StoreArguments},
    confirm::confirm,
    error::Error,
    output::{Output, printable},
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
        MarksCommand::List { scope } => list(&store, *output, scope.as_deref()).await,
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
            let (key, was) = if new {
                (unmarked(&store, &place).await?, None)
            } else {
                let (key, state) = find(&store, &place).await?;
                output.line(format!("{place} is at {}", mark(state)))?;
                (key, state.beyond_end().or(state.mark))
            };
            confirm(&question(&place, was, offset), &sure)?;
            stands_still(&store, &place, was).await?;
            store.set_mark(&key, Some(offset)).await?;
            output.line(format!("{place} goes on at {offset}"))?;
            tell(output, "set", &place, was, Some(offset))
        }
        MarksCommand::Forget { place, sure } => {
            let output = output.optional();
            let (key, state) = find(&store, &place).await?;
            output.line(format!("{place} is at {}", mark(state)))?;
            let question = format!(
                "Forget the mark of {place}? It begins anew: at the first offset, unless its worker says otherwise."
            );
            confirm(&question, &sure)?;
            stands_still(&store, &place, state.beyond_end().or(state.mark)).await?;
            store.set_mark(&key, None).await?;
            output.line(format!("{place} begins anew"))?;
            tell(
                output,
                "forget",
                &place,
                state.beyond_end().or(state.mark),
                None,
            )
        }
    }
}

fn tell(
    output: Output,
    action: &str,
    place: &Place,
    was: Option<u64>,
    mark: Option<u64>,
) -> Result<(), Error> {
    output.object(&json!({
        "action": action,
        "scope": place.scope,
        "stream": place.stream,
        "was": was,
        "mark": mark,
    }))?;
    Ok(())
}

fn question(place: &Place, was: Option<u64>, offset: u64) -> String {
    match was {
        Some(was) if was < offset => format!(
            "Set the mark of {place} to {offset}? What is from {was} to {} is never handled.",
            offset - 1
        ),
        _ => format!(
            "Set the mark of {place} to {offset}? What is from there on is read, also if it was before."
        ),
    }
}

async fn unmarked(store: &AnyStore, place: &Place) -> Result<Key, Error> {
    let key = named(place)?;
    match store.look_at_stream(&key).await? {
        Some(state) if state.mark.is_some() => Err(Error::Unchanged(format!(
            "{place} is at {}: leave `--new` out to set it",
            mark(state)
        ))),
        _ => Ok(key),
    }
}

/// What was asked for is of a mark that its worker has not moved meanwhile: else it would be moved back, and what is
/// between handled again.
async fn stands_still(store: &AnyStore, place: &Place, was: Option<u64>) -> Result<(), Error> {
    let state = store.look_at_stream(&named(place)?).await?;
    let now = state.and_then(|state| state.beyond_end().or(state.mark));
    if now == was {
        return Ok(());
    }
    let told = state.map_or_else(|| "gone".to_owned(), mark);
    Err(Error::Unchanged(format!(
        "the mark of {place} was moved meanwhile, and is {told}: nothing was done, look again"
    )))
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

async fn list(store: &AnyStore, output: Output, scope: Option<&str>) -> Result<(), Error> {
    let mut streams = store.list_streams().await?;
    streams.retain(|(key, _)| scope.is_none_or(|scope| key.scope() == scope));
    let mut rows = Vec::new();
    for (key, state) in streams {
        let place = Place::of(&key);
        output.object(&as_json(&place, state))?;
        rows.push([
            printable(&place.scope),
            printable(&place.stream),
            mark(state),
            reader(state),
        ]);
    }
    if !rows.is_empty() {
        output.table(["HANDLER", "STREAM", "MARK", "READ"], &rows)?;
    }
    output.line(match rows.len() {
        1 => "1 mark".to_owned(),
        marks => format!("{marks} marks"),
    })?;
    Ok(())
}

fn reader(state: StreamState) -> String {
    if state.remaining.is_zero() {
        "by nobody".to_owned()
    } else {
        format!("by a worker, whose lease lasts {}", words(state.remaining))
    }
}

fn show(output: Output, place: &Place, state: StreamState) -> Result<(), Error> {
    output.fields(&[
        ("handler", place.scope.clone()),
        ("stream", place.stream.clone()),
        ("mark", mark(state)),
        ("read", reader(state)),
    ])?;
    output.object(&as_json(place, state))?;
    Ok(())
}

fn as_json(place: &Place, state: StreamState) -> Value {
    let is_read = !state.remaining.is_zero();
    json!({
        "scope": place.scope,
        "stream": place.stream,
        "mark": state.beyond_end().or(state.mark),
        "beyond_end": state.beyond_end().is_some(),
        "lease_seconds": is_read.then_some(state.remaining.as_secs_f64()),
    })
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

#[cfg(test)]
mod tests {
    use idem_amqp::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_mark_that_has_moved_since_it_was_shown_is_left() {
        let store = AnyStore::from(MemoryStore::new());
        let place = Place {
            scope: "ledger.book".into(),
            stream: "kafka:postings:3".into(),
        };
        let key = place.key().unwrap();
        store.set_mark(&key, Some(7)).await.unwrap();
        assert!(stands_still(&store, &place, Some(7)).await.is_ok());
        store.set_mark(&key, Some(9)).await.unwrap();
        let refused = stands_still(&store, &place, Some(7)).await.unwrap_err();
        assert!(refused.to_string().contains("is 9"), "{refused}");
        store.set_mark(&key, None).await.unwrap();
        assert!(stands_still(&store, &place, Some(9)).await.is_err());
        assert!(stands_still(&store, &place, None).await.is_ok());
    }
}
