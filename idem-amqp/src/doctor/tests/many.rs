//! How many messages are taken at once.

use std::time::Duration;

use idem_core::executor::Sharing;

use super::*;

#[test]
fn unusual_prefetches_are_said_and_so_is_a_small_pool() {
    let one = Queue::quorum("orders").prefetch(1);
    let one_alone = one.clone().local_retries();
    let many = Queue::quorum("orders").prefetch(1001);
    let in_vain = Queue::quorum("orders").prefetch(16).concurrency(17);
    let found_of = |queue: &Queue| found(&facts(V4_0, queue, Policy::DEFAULT, Declaration::Ours));
    assert_eq!(found_of(&one), []);
    assert_eq!(
        found_of(&one_alone),
        [(Severity::Note, "prefetch", Bars::No)]
    );
    for queue in [many, in_vain] {
        let warning = (Severity::Warning, "prefetch", Bars::No);
        assert_eq!(found_of(&queue), [warning], "{queue:?}");
    }
    assert_eq!(found_of(&Queue::quorum("orders").prefetch(1000)), []);
    let queue = Queue::quorum("orders").prefetch(16);
    for (limit, expected) in [(None, 0), (Some(17), 0), (Some(16), 0), (Some(15), 1)] {
        let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Declaration::Ours);
        facts.queues[0].checked.at_once = limit;
        let said = found(&facts);
        assert_eq!(said.len(), expected, "{limit:?}: {said:?}");
    }
}

#[test]
fn that_the_store_runs_fewer_handlers_is_said_to_whoever_has_asked_for_more() {
    let queue = || Queue::quorum("orders");
    let note = vec![(Severity::Note, "store-connections", Bars::No)];
    for (queue, expected) in [
        (queue(), vec![]),
        (queue().max_waiting(8), vec![]),
        (queue().prefetch(8), vec![]),
        (queue().prefetch(9), note.clone()),
        (queue().concurrency(9), note),
        (queue().prefetch(16).concurrency(8), vec![]),
    ] {
        let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Declaration::Ours);
        facts.queues[0].checked.at_once = Some(8);
        assert_eq!(found(&facts), expected, "{queue:?}");
    }
}

const SHARING: Sharing = Sharing {
    handler: "orders.charge",
    size: 32,
    groups: 4,
};

/// Queues with these prefetches.
fn queues_with(prefetches: &[u16]) -> Vec<Queue> {
    let numbered = (1..).zip(prefetches);
    let queues = numbered
        .map(|(number, prefetch)| Queue::quorum(format!("orders-{number}")).prefetch(*prefetch));
    queues.collect()
}

/// What is found of queues with these prefetches, whose messages this handler takes.
fn found_of_groups(prefetches: &[u16]) -> Vec<(Severity, &'static str, Bars)> {
    let queues = queues_with(prefetches);
    let facts = |queue| facts(V4_0, queue, Policy::DEFAULT, Declaration::Ours);
    let mut all = facts(&queues[0]);
    all.queues = queues
        .iter()
        .flat_map(|queue| facts(queue).queues)
        .collect();
    for queue in &mut all.queues {
        queue.checked.sharing = Some(SHARING);
    }
    found(&all)
}

#[test]
fn a_group_that_can_never_fill_is_a_warning() {
    let warning = (Severity::Warning, "group", Bars::No);
    for (prefetch, expected) in [(4, 1), (5, 1), (31, 1), (32, 0), (64, 0)] {
        let said = found_of_groups(&[prefetch]);
        assert_eq!(said, vec![warning; expected], "{prefetch}");
    }
}

#[test]
fn messages_of_all_queues_of_a_handler_share_its_groups() {
    assert_eq!(found_of_groups(&[16, 16]), []);
    assert_eq!(found_of_groups(&[16, 15]).len(), 2, "one for each queue");
}

#[test]
fn what_is_said_of_a_group_says_what_to_set() {
    let said_of = |prefetch: u16, sharing: Sharing| {
        let queue = Queue::quorum("orders").prefetch(prefetch);
        let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Declaration::Ours);
        facts.queues[0].checked.sharing = Some(sharing);
        examine(&facts).remove(0).finding.text
    };
    let alone = said_of(4, SHARING);
    assert!(alone.contains("never share a transaction"), "{alone}");
    assert!(alone.contains("set `.concurrency(32)` or more"), "{alone}");
    let half = said_of(16, SHARING);
    assert!(
        half.contains("handles at most 16 at once; set `.concurrency(32)`"),
        "{half}"
    );
    let pairs = said_of(4, Sharing { size: 2, ..SHARING });
    assert!(
        pairs.contains("set `.concurrency(5)` or more, or"),
        "{pairs}"
    );
}

#[test]
fn a_batch_that_can_never_fill_is_a_warning() {
    let warning = (Severity::Warning, "batch", Bars::No);
    let batch = Batches {
        handler: "orders.charge",
        timeout: None,
        lease: Policy::DEFAULT.lease(),
        size: 64,
        by_mark: false,
    };
    for (prefetches, expected) in [(&[63][..], 1), (&[64], 0), (&[32, 32], 0), (&[32, 31], 2)] {
        let queues = queues_with(prefetches);
        let facts = |queue| facts(V4_0, queue, Policy::DEFAULT, Declaration::Ours);
        let mut all = facts(&queues[0]);
        let known = queues.iter().flat_map(|queue| facts(queue).queues);
        all.queues = known.collect();
        for queue in &mut all.queues {
            queue.checked.batch = Some(batch);
        }
        assert_eq!(found(&all), vec![warning; expected], "{prefetches:?}");
        // Messages under another limit share no calls with the others.
        if let [_, other, ..] = &mut all.queues[..] {
            let timeout = Some(Duration::from_secs(5));
            other.checked.batch = Some(Batches { timeout, ..batch });
            assert_eq!(found(&all), [warning; 2], "{prefetches:?}");
        }
    }
    // A call takes what waits of a stream by its mark, and is one handler.
    let stream = Queue::quorum("orders").prefetch(64).concurrency(4);
    let mut facts = facts(V4_0, &stream, Policy::DEFAULT, Declaration::Ours);
    for (by_mark, expected) in [(false, 1), (true, 0)] {
        facts.queues[0].checked.batch = Some(Batches { by_mark, ..batch });
        assert_eq!(found(&facts), vec![warning; expected], "{by_mark}");
    }
}
