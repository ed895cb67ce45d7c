//! More messages at once than the store lets be handled: nothing is wrong, but they wait.

use crate::Queue;

/// Says so in the log; no warning, because a message that waits holds no key and loses no attempt.
pub(super) fn tell(queue: &Queue, limit: Option<usize>) {
    let Some(limit) = exceeded(queue, limit) else {
        return;
    };
    tracing::info!(
        queue = queue.name(),
        prefetch = queue.concurrency(),
        connections = limit,
        "the queue's prefetch is larger than the number of atomic handlers that its store runs at \
         once: the others wait for a connection before they claim; for more at once, raise the \
         store's `connections`"
    );
}

fn exceeded(queue: &Queue, limit: Option<usize>) -> Option<usize> {
    limit.filter(|limit| *limit < queue.concurrency())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_limits_only_what_exceeds_its_connections() {
        let queue = Queue::declare("orders").prefetch(16);
        for (limit, expected) in [
            (None, None),
            (Some(17), None),
            (Some(16), None),
            (Some(15), Some(15)),
        ] {
            assert_eq!(exceeded(&queue, limit), expected, "{limit:?}");
        }
    }
}
