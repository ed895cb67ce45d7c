//! How many messages are taken at once.

use idem_core::store::Finding;

use crate::doctor::{Diagnosis, QueueFacts};

pub(super) const PREFETCH: &str = "prefetch";
pub(super) const CONNECTIONS: &str = "store-connections";

/// More than a worker should hold back from others.
const MANY: u16 = 1000;

pub(super) fn look(known: &QueueFacts) -> impl Iterator<Item = Diagnosis> {
    let found = [of_channel(known), of_store(known)];
    found.into_iter().flatten().map(Diagnosis::reported)
}

fn of_channel(known: &QueueFacts) -> Option<Finding> {
    let queue = known.queue();
    let (name, prefetch) = (queue.name(), queue.broker_prefetch());
    if queue.handlers_in_vain() {
        return Some(Finding::warning(
            PREFETCH,
            format!(
                "the broker sends {prefetch} messages of `{name}` at a time, so more handlers than that never run \
                 at once: raise `.prefetch(…)`, or lower `.concurrency(…)`"
            ),
        ));
    }
    if prefetch == 1 && !queue.has_ladder() {
        return Some(Finding::note(
            PREFETCH,
            format!(
                "the broker sends one message of `{name}` at a time and waits for its \
                 acknowledgement, and there is no retry ladder: a conflict or a delay stops the queue; \
                 raise `.prefetch(…)` or add `.ladder(Ladder::default())` unless that is meant"
            ),
        ));
    }
    (prefetch > MANY).then(|| {
        Finding::warning(
            PREFETCH,
            format!(
                "a worker takes {prefetch} messages of `{name}` at once, which others cannot have \
                 meanwhile and which all come back when it crashes; 100 to 300 are as fast: lower \
                 `.prefetch(…)`"
            ),
        )
    })
}

/// No warning: what waits for a connection is the next one's, and its claim, if it has one, is kept. Nothing at all
/// where nobody has said how many are to run at once: the defaults of queue and store differ because waiting costs so
/// little.
fn of_store(known: &QueueFacts) -> Option<Finding> {
    let name = known.queue().name();
    let handlers = known.queue().stated_handlers()?;
    let limit = known.checked.at_once.filter(|limit| *limit < handlers)?;
    Some(Finding::note(
        CONNECTIONS,
        format!(
            "{handlers} messages of `{name}` may be handled at once, and the store runs {limit} \
             atomic handlers at once: the others wait for a connection; for more at once raise the \
             store's `connections`"
        ),
    ))
}
