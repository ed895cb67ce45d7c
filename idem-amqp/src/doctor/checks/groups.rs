//! Handlers whose messages are to share transactions.

use idem_core::{executor::Sharing, store::Finding};

use crate::doctor::{Diagnosis, Facts, QueueFacts};

pub(super) const GROUP: &str = "group";

pub(super) fn look(known: &QueueFacts, facts: &Facts) -> Option<Diagnosis> {
    let Sharing {
        handler,
        size,
        groups,
    } = known.checked.sharing?;
    let most = at_once(handler, facts);
    let name = known.queue().name();
    let enough = size.max(groups + 1);
    let what = if most <= groups {
        format!(
            "messages of `{name}` never share a transaction: a worker handles at most {most} at once, and \
             up to {groups} have one each"
        )
    } else if most < size {
        format!(
            "a group of `{name}` never fills: {size} messages may share a transaction, and a worker \
             handles at most {most} at once"
        )
    } else {
        return None;
    };
    Some(Diagnosis::reported(Finding::warning(
        GROUP,
        format!(
            "{what}; set `.concurrency({enough})` or more, or lower or remove `group = {size}`"
        ),
    )))
}

/// How many messages of a handler a worker is at, at most: of all queues that it serves.
fn at_once(handler: &str, facts: &Facts) -> usize {
    let queues = facts.queues.iter();
    let its = queues.filter(|one| {
        one.checked
            .sharing
            .is_some_and(|sharing| sharing.handler == handler)
    });
    its.map(|one| one.queue().handlers()).sum()
}
