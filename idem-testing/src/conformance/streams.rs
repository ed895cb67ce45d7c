//! How far a handler has come in a stream, and who reads it.

use std::time::Duration;

use futures_util::FutureExt as _;
use idem_core::store::{
    Owner, StreamClaim, StreamStore,
    Write::{Applied, Fenced},
};

use super::{LEASE, Rule, StreamHarness, race::race, reader::Reader};

const CONTENDERS: usize = 12;
const ROUNDS: usize = 10;

/// Nothing is known, so nothing is done.
pub async fn a_new_stream_has_no_mark<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::OneReads);
    let seen = reader
        .scene
        .store()
        .look_at_stream(reader.scene.key())
        .await;
    reader
        .scene
        .holds(matches!(seen, Ok(None)), "nobody has claimed it");
    reader.acquires(None, "nobody has read it").await;
}

/// The others stand by, and hear for how long at least.
pub async fn one_worker_at_a_time_reads_a_stream<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::OneReads);
    reader.acquires(None, "nobody reads it").await;
    reader.is_held(LEASE, "another one has it").await;
    reader.scene.advance_nearly(LEASE).await;
    let claim = reader.claim_by(Owner::new()).await;
    reader.scene.holds(
        matches!(claim, StreamClaim::Held { .. }),
        "the lease lasts to its end",
    );
}

/// An answer was lost, so it asks again.
pub async fn a_repeated_claim_of_a_stream_gets_the_same_lease<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::OneReads);
    let owner = Owner::new();
    let lease = reader.acquires_as(owner, None, "it is free").await;
    reader.scene.advance(LEASE / 2).await;
    let again = reader.acquires_as(owner, None, "it has it").await;
    reader.scene.holds(lease == again, "it is the same lease");
    reader
        .is_held(LEASE, "the second claim has prolonged it")
        .await;
    reader
        .extends(&lease, 1, Applied, "it has it under this token")
        .await;
}

/// It has stopped, or sleeps: what it writes when it wakes has no effect.
pub async fn a_stream_whose_reader_is_gone_is_taken_over<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::StreamFencing);
    let old = reader.acquires(None, "it is free").await;
    reader.extends(&old, 3, Applied, "it has it").await;
    reader.scene.advance(LEASE).await;
    let new = reader.acquires(Some(3), "the lease has run out").await;
    reader.scene.holds(
        new.token > old.token,
        "the tokens of a stream grow over a takeover",
    );
    reader.extends(&old, 9, Fenced, "it was taken over").await;
    reader.releases(&old, 9, Fenced, "it was taken over").await;
    reader.is_held(LEASE, "another one has it").await;
    reader.releases(&new, None, Applied, "it has it").await;
    reader
        .acquires(Some(3), "what is fenced moves no mark")
        .await;
}

/// As long as there is a sign of life.
pub async fn a_heartbeat_keeps_a_stream<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::OneReads);
    let lease = reader.acquires(None, "it is free").await;
    for _ in 0..4 {
        reader.scene.advance(LEASE / 2).await;
        reader.extends(&lease, None, Applied, "it has it").await;
    }
    reader.is_held(LEASE, "it was extended just now").await;
}

/// The next one goes on from there.
pub async fn a_mark_is_found_by_the_next_reader<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::StreamMark);
    let lease = reader.acquires(None, "it is free").await;
    reader.extends(&lease, 0, Applied, "it has it").await;
    reader.extends(&lease, 17, Applied, "it has it").await;
    reader.releases(&lease, 21, Applied, "it has it").await;
    let lease = reader.acquires(Some(21), "it was given back").await;
    let seen = reader
        .scene
        .store()
        .look_at_stream(&lease.stream)
        .await
        .ok()
        .flatten()
        .map(|state| state.mark);
    reader.scene.holds(
        seen == Some(Some(21)),
        &format!("a look shows the mark: {seen:?}"),
    );
}

/// A write that comes late tells what was true before.
pub async fn a_mark_never_moves_back<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::StreamMark);
    let lease = reader.acquires(None, "it is free").await;
    reader.extends(&lease, 9, Applied, "it has it").await;
    reader.extends(&lease, 4, Applied, "it has it").await;
    reader.extends(&lease, None, Applied, "it has it").await;
    reader.releases(&lease, 7, Applied, "it has it").await;
    reader.acquires(Some(9), "all up to there is done").await;
}

/// Nobody else has it, so what it has done counts.
pub async fn a_lease_that_ran_out_still_moves_the_mark<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::StreamFencing);
    let lease = reader.acquires(None, "it is free").await;
    reader.scene.advance(2 * LEASE).await;
    reader
        .extends(&lease, 5, Applied, "nobody has taken over")
        .await;
    reader.is_held(LEASE, "it was extended").await;
    reader.scene.advance(2 * LEASE).await;
    reader
        .releases(&lease, 6, Applied, "nobody has taken over")
        .await;
    reader.acquires(Some(6), "it was given back").await;
}

/// Nobody waits for the lease of a worker that has stopped in order.
pub async fn a_stream_that_was_given_back_is_free_at_once<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::StreamFencing);
    let old = reader.acquires(None, "it is free").await;
    reader.releases(&old, None, Applied, "it has it").await;
    let new = reader.acquires(None, "it was given back").await;
    reader.scene.holds(
        new.token > old.token,
        "the tokens of a stream grow over a release",
    );
}

/// The heartbeat was on its way when the stream was given back.
pub async fn a_late_heartbeat_does_not_bring_a_stream_back<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::StreamFencing);
    let lease = reader.acquires(None, "it is free").await;
    reader.releases(&lease, 2, Applied, "it has it").await;
    reader.extends(&lease, 2, Fenced, "it was given back").await;
    reader.acquires(Some(2), "nobody has it").await;
}

/// Forward, back, or to the beginning; whoever reads begins anew from there.
pub async fn a_person_sets_the_mark_anywhere<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::SetByHand);
    reader.sets(Some(50)).await;
    let mut set = Some(50);
    for mark in [Some(7), Some(99), None] {
        let old = reader.acquires(set, "it was set before").await;
        reader.sets(mark).await;
        reader
            .extends(&old, 1_000, Fenced, "the mark was set meanwhile")
            .await;
        let new = reader.acquires(mark, "the mark was set").await;
        reader.scene.holds(
            new.token > old.token,
            "the tokens of a stream grow when its mark is set",
        );
        reader.releases(&new, None, Applied, "it has it").await;
        set = mark;
    }
}

/// Two handlers read one stream, each all of it.
pub async fn each_handler_has_a_mark_of_its_own<H: StreamHarness>(harness: &H) {
    let [one, other] = [(); 2].map(|()| Reader::new(harness, Rule::StreamMark));
    let lease = one.acquires(None, "it is free").await;
    one.extends(&lease, 8, Applied, "it has it").await;
    let lease = other.acquires(None, "it is another one's").await;
    other.extends(&lease, 3, Applied, "it has it").await;
    other.releases(&lease, None, Applied, "it has it").await;
    other.acquires(Some(3), "this is its own").await;
}

/// A handler may rest for as long as its stream lasts.
pub async fn a_mark_is_kept_without_end<H: StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::KeptForEver);
    let lease = reader.acquires(None, "it is free").await;
    reader.releases(&lease, 12, Applied, "it has it").await;
    reader.scene.advance(Duration::from_hours(24 * 400)).await;
    reader.acquires(Some(12), "nobody has set it").await;
}

/// As far as numbers are exact everywhere.
pub async fn a_great_offset_is_kept_exactly<H: StreamHarness>(harness: &H) {
    const GREAT: u64 = (1 << 53) - 1;
    let reader = Reader::new(harness, Rule::StreamMark);
    let lease = reader.acquires(None, "it is free").await;
    reader
        .extends(&lease, GREAT - 1, Applied, "it has it")
        .await;
    reader.releases(&lease, GREAT, Applied, "it has it").await;
    reader.acquires(Some(GREAT), "it is the greatest").await;
}

/// Those that are read or were, those that were given back, and those of which a person has set the mark.
pub async fn every_stream_is_listed_with_its_mark<H: StreamHarness>(harness: &H) {
    let readers = [(); 5].map(|()| Reader::new(harness, Rule::StreamsListed));
    let [gone, read, given_back, set, unknown] = &readers;
    let lease = gone.acquires(None, "it is free").await;
    gone.extends(&lease, 3, Applied, "it has it").await;
    gone.scene.advance(LEASE).await;
    let lease = read.acquires(None, "it is free").await;
    read.extends(&lease, 8, Applied, "it has it").await;
    let lease = given_back.acquires(None, "it is free").await;
    given_back
        .releases(&lease, None, Applied, "it has it")
        .await;
    set.sets(Some(5)).await;
    let listed = read.scene.store().list_streams().await;
    let listed = Rule::StreamsListed.answer(listed);
    for (reader, expected) in [
        (gone, &[(Some(3), false)][..]),
        (read, &[(Some(8), true)]),
        (given_back, &[(None, false)]),
        (set, &[(Some(5), false)]),
        (unknown, &[]),
    ] {
        let found = listed.iter().filter(|(key, _)| key == reader.scene.key());
        let found: Vec<_> = found
            .map(|(_, state)| (state.mark, !state.remaining.is_zero()))
            .collect();
        reader.scene.holds(
            found == expected,
            &format!("expected mark and reader {expected:?}, found {found:?}"),
        );
    }
    let is_in_order = listed.is_sorted_by_key(|(key, _)| key.as_str().to_owned());
    read.scene
        .holds(is_in_order, "they are in the order of their keys");
}

/// Many workers start at once.
pub async fn of_many_that_race_for_a_stream_one_reads<H: StreamHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let reader = Reader::new(harness, Rule::OneReads);
        let contenders = (0..CONTENDERS).map(|_| {
            let (store, stream) = (reader.scene.store(), reader.scene.key().clone());
            async move { store.claim_stream(&stream, Owner::new(), LEASE).await }.boxed()
        });
        let said = race(contenders.collect()).await;
        let acquired = said
            .iter()
            .filter(|claim| matches!(claim, Ok(StreamClaim::Acquired { .. })));
        let acquired = acquired.count();
        reader
            .scene
            .holds(acquired == 1, &format!("{acquired} have it: {said:?}"));
    }
}
