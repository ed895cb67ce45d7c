//! Handlers that are called with several messages.

use idem_core::store::Finding;

use crate::doctor::{Diagnosis, Facts, QueueFacts};

pub(super) const BATCH: &str = "batch";

pub(super) fn look(known: &QueueFacts, facts: &Facts) -> Option<Diagnosis> {
    let batch = known.checked.batch?;
    // Of all queues whose messages share calls.
    let its = facts
        .queues
        .iter()
        .filter(|one| one.checked.batch == Some(batch));
    let (name, size) = (known.queue().name(), batch.size);
    let (most, limit): (usize, _) = if batch.by_mark {
        (known.queue().broker_prefetch().into(), "prefetch")
    } else {
        (its.map(|one| one.queue().handlers()).sum(), "concurrency")
    };
    if most >= size {
        return None;
    }
    Some(Diagnosis::reported(Finding::warning(
        BATCH,
        format!(
            "a batch of `{name}` never fills: {size} messages may share a call, and a worker handles at most \
             {most} at once; set `.{limit}({size})` or more, or lower `batch = {size}`"
        ),
    )))
}
