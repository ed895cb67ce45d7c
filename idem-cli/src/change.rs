//! Changes one key: shows it, asks, and does it if it is still as it was shown.

use std::time::Duration;

use idem_amqp::{
    AnyStore, Key,
    handler::Outcome,
    operator::{Action, Intervened, Intervention, KeyRecord, KeyState, OperatorStore as _, Seen},
    store::Look as _,
    stores::SharedCache,
};
use serde_json::json;

use crate::{
    arguments::Change, confirm::confirm, error::Error, keys::rest, operator, output::Output,
};

/// `completion` is what a completed key remembers, and for how long.
pub(crate) async fn run(
    store: &AnyStore,
    cache: Option<&SharedCache>,
    output: &Output,
    change: &Change,
    action: Action,
    completion: Option<(Outcome, Duration)>,
) -> Result<(), Error> {
    let key = &change.key;
    let record = store.look(key).await?.map(|known| known.record);
    let seen = record.as_ref().map(KeyRecord::seen);
    let intervention = intervention(key, action, seen, completion);
    if let (Action::Forget, None, Some(cache)) = (action, &record, cache) {
        return forget_in(cache, output, change).await;
    }
    if !intervention.is_fit() {
        return Err(unfit(key, action, record.as_ref()));
    }
    output.line(format!("{key} {}", described(record.as_ref())))?;
    if let Some(warning) = warning(key, action) {
        output.line(warning)?;
    }
    confirm(&question(key, action), &change.sure)?;
    // Before, so that nothing is done if it is away, and after it: a worker may have asked the store in between.
    if let Some(cache) = cache {
        cache.remove(key).await?;
    }
    let intervened = store.intervene(&intervention).await;
    let removed = match cache {
        Some(cache) => cache.remove(key).await,
        None => Ok(()),
    };
    match intervened? {
        Intervened::Applied => {}
        Intervened::Changed => {
            let text = format!("`{key}` has changed meanwhile, so nothing was done: look again");
            return Err(Error::Unchanged(text));
        }
        _ => return Err(unfit(key, action, record.as_ref())),
    }
    removed.map_err(Error::CacheNotTold)?;
    output.object(&json!({
        "key": key.as_str(),
        "action": action.as_str(),
        "by": intervention.by,
        "state_before": seen.map(|seen| seen.state.as_str()),
        "token_before": seen.map(|seen| seen.token.get()),
    }))?;
    output.line(done(action))?;
    if let (None, Some(remark)) = (cache, remembered_elsewhere(action, seen)) {
        output.line(remark)?;
    }
    Ok(())
}

/// The store has no such key any more, or never had.
async fn forget_in(cache: &SharedCache, output: &Output, change: &Change) -> Result<(), Error> {
    let key = &change.key;
    if !cache.knows(key).await? {
        let text = format!("neither the store nor the cache has a key `{key}`");
        return Err(Error::NotFound(text));
    }
    output.line(format!("{key} is known to the cache alone, as completed"))?;
    confirm(&question(key, Action::Forget), &change.sure)?;
    cache.remove(key).await?;
    output.object(&json!({
        "key": key.as_str(),
        "action": Action::Forget.as_str(),
        "by": operator::name(),
        "state_before": null,
        "token_before": null,
    }))?;
    Ok(output.line(done(Action::Forget))?)
}

fn intervention(
    key: &Key,
    action: Action,
    seen: Option<Seen>,
    completion: Option<(Outcome, Duration)>,
) -> Intervention {
    let (key, by) = (key.clone(), operator::name());
    match (action, completion) {
        (Action::Release, _) => Intervention::release(key, seen, by),
        (Action::Forget, _) => Intervention::forget(key, seen, by),
        (_, completion) => {
            let (outcome, retention) = completion.unwrap_or_default();
            Intervention::complete(key, seen, by, outcome, retention)
        }
    }
}

fn described(record: Option<&KeyRecord>) -> String {
    match record {
        Some(record) => format!("is {}, {}", record.state(), rest(record)),
        None => "is not known to the store".into(),
    }
}

fn question(key: &Key, action: Action) -> String {
    match action {
        Action::Release => format!("Free `{key}`, and fence out whoever holds it?"),
        Action::Forget => format!("Forget `{key}`? Its message runs again if it comes again."),
        _ => format!("Make `{key}` done? Its message does not run."),
    }
}

/// What is not seen by the key alone.
fn warning(key: &Key, action: Action) -> Option<&'static str> {
    match action {
        Action::Forget if is_numbered(key) => Some(
            "it is a number of a sequence or a session: a sequence waits at a number that is forgotten \
             until its message comes again; if it will not, use `idem keys complete`",
        ),
        Action::Complete => Some(
            "a handler that is recorded by a table of its own (`recorded_by`) asks that table first, and \
             may run all the same",
        ),
        _ => None,
    }
}

/// Whether it ends with a number: `~` in a part is written otherwise.
fn is_numbered(key: &Key) -> bool {
    let number = key.as_str().rsplit_once('~').map(|(_, number)| number);
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

fn done(action: Action) -> &'static str {
    match action {
        Action::Release => "released: its next copy runs",
        Action::Forget => "forgotten: its message runs again if it comes again",
        _ => "completed: copies of its message are duplicates",
    }
}

/// What this command does not reach.
fn remembered_elsewhere(action: Action, seen: Option<Seen>) -> Option<&'static str> {
    let was_completed = seen.is_some_and(|seen| seen.state == KeyState::Completed);
    (action == Action::Forget && was_completed).then_some(
        "workers with a cache (`Cached`) may answer copies from memory for 1m more, or as long as its `longest` says; \
         if they share one, say where it is: `--cache URL --cache-name NAME`",
    )
}

fn unfit(key: &Key, action: Action, record: Option<&KeyRecord>) -> Error {
    match (action, record) {
        (_, None) => Error::NotFound(format!("the store has no key `{key}`")),
        (Action::Release, _) => Error::Unchanged(format!(
            "`{key}` is completed: `idem keys forget` lets its message run again"
        )),
        _ => Error::Unchanged(format!("`{key}` is completed already")),
    }
}
