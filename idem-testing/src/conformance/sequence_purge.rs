//! What is purged of sequences that have expired. The cases count, and want data that no other case
//! touches.

use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use idem_core::store::{Purge, Release};

use super::{
    Producer, PurgeHarness, RETENTION, Rule, SequenceHarness,
    race::race,
    sequence_races::{ROUNDS, claims, leases},
};

/// The sequence and its exceptions count one each.
pub async fn an_expired_sequence_is_purged_with_its_exceptions<
    H: SequenceHarness + PurgeHarness,
>(
    harness: &H,
) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    for number in 0..3 {
        producer.releases(number, &Release::gave_up("no")).await;
    }
    producer.works_on(3..5).await;
    producer.mark_is(5, "nobody waits for dead letters").await;
    purges(&producer, 100, 0, "it is remembered").await;
    producer.scene.advance(2 * RETENTION).await;
    let other = Producer::new(harness, Rule::StaysKnown);
    other.releases(0, &Release::gave_up("no")).await;
    other.works(1).await;
    other.mark_is(2, "nobody waits for a dead letter").await;
    purges(
        &producer,
        100,
        7,
        "three records, three exceptions, one sequence",
    )
    .await;
    purges(&producer, 100, 0, "the other one is known").await;
    other.are_late(0..1, "it was given up").await;
}

/// However long ago they began.
pub async fn a_known_sequence_is_not_purged<H: SequenceHarness + PurgeHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works_on(0..5).await;
    for _ in 0..4 {
        producer.mark_is(5, "all are done").await;
        producer.scene.advance(RETENTION * 3 / 4).await;
        purges(&producer, 100, 0, "its producer was heard of").await;
    }
    producer.are_done(0..5, "its sequence is known").await;
}

/// So that nobody waits long.
pub async fn at_most_a_batch_of_sequences_is_purged<H: SequenceHarness + PurgeHarness>(
    harness: &H,
) {
    let mut producers = Vec::new();
    for _ in 0..3 {
        let producer = Producer::new(harness, Rule::StaysKnown);
        producer.releases(0, &Release::gave_up("no")).await;
        producer.works(1).await;
        producer.mark_is(2, "nobody waits for a dead letter").await;
        producers.push(producer);
    }
    let scene = &producers[0];
    scene.scene.advance(2 * RETENTION).await;
    // A record, an exception and the sequence, of each.
    purges(scene, 4, 4, "a batch of four").await;
    purges(scene, 4, 4, "a batch of four").await;
    purges(scene, 4, 1, "one is left").await;
    purges(scene, 4, 0, "nothing is left").await;
}

/// What was purged in part is begun anew as a whole.
pub async fn a_sequence_that_is_purged_in_part_begins_anew<H: SequenceHarness + PurgeHarness>(
    harness: &H,
) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    for number in 0..3 {
        producer.releases(number, &Release::gave_up("no")).await;
    }
    producer.mark_is(3, "nobody waits for dead letters").await;
    producer.scene.advance(2 * RETENTION).await;
    purges(&producer, 4, 4, "three records and an exception").await;
    producer.works_on(0..3).await;
    producer.mark_is(3, "all are done").await;
    purges(&producer, 100, 0, "it is another sequence").await;
    producer
        .are_done(0..3, "they are of another sequence")
        .await;
}

/// Each thing is counted by one of them.
pub async fn purges_of_sequences_that_race_share_the_work<H: SequenceHarness + PurgeHarness>(
    harness: &H,
) {
    let mut producers = Vec::new();
    for _ in 0..6 {
        let producer = Producer::new(harness, Rule::StaysKnown);
        producer.releases(0, &Release::gave_up("no")).await;
        producer.works(1).await;
        producer.mark_is(2, "nobody waits for a dead letter").await;
        producers.push(producer);
    }
    let scene = &producers[0].scene;
    scene.advance(2 * RETENTION).await;
    let mut removed = 0;
    for _ in 0..20 {
        let purges = (0..4).map(|_| {
            let store = scene.store();
            async move { Rule::Purge.answer(store.purge(3).await) }.boxed()
        });
        let said = race(purges.collect()).await;
        removed += said.iter().sum::<u32>();
        if said.iter().all(|it| *it == 0) {
            break;
        }
    }
    scene.holds(
        removed == 18,
        &format!("a record, an exception and a sequence of each of six: {removed} were counted"),
    );
}

/// A sequence expires and is purged while its producer goes on: it begins anew, once.
pub async fn claims_that_race_with_the_purge_begin_one_sequence<
    H: SequenceHarness + PurgeHarness,
>(
    harness: &H,
) {
    for _ in 0..ROUNDS {
        let producer = Producer::new(harness, Rule::StaysKnown).with_window(32);
        producer.works_on(0..8).await;
        producer.mark_is(8, "all are done").await;
        producer.scene.advance(2 * RETENTION).await;
        let numbers = (100..104)
            .chain(100..104)
            .map(|number| producer.asks(number));
        let mut all: Vec<_> = claims(numbers)
            .into_iter()
            .map(|claim| claim.map(Some).boxed())
            .collect();
        for _ in 0..3 {
            let store = producer.scene.store();
            let purges = async move {
                Rule::Purge.answer(store.purge(100).await);
                None
            };
            all.push(purges.boxed());
        }
        let said: Vec<_> = race(all).await.into_iter().flatten().collect();
        let leases = leases(&said);
        let keys: BTreeSet<_> = leases.iter().map(|it| &it.key).collect();
        producer.scene.holds(
            (leases.len(), keys.len()) == (4, 4),
            &format!("four numbers, each of them twice: {said:?}"),
        );
        producer.acquires(7).await;
    }
}

async fn purges<H: SequenceHarness + PurgeHarness>(
    producer: &Producer<'_, H>,
    batch: u32,
    expected: u32,
    why: &str,
) {
    let removed = Rule::Purge.answer(producer.scene.store().purge(batch).await);
    producer.scene.holds(
        removed == expected,
        &format!("{why}: expected {expected}, the store answered {removed}"),
    );
}
