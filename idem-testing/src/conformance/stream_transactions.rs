//! Handlers of streams that write in a transaction: what they have written commits with the mark, once, or not at all.

use std::sync::Arc;

use idem_core::{
    handler::{Outbox, Outcome, Outgoing},
    store::{
        Completion, Finish, Finished, MarkMove, Open as Opening, StreamLease, StreamStore as _,
        TransactionalStore, Write::Applied, outbox::OutboxListing,
    },
};

use super::{
    BatchHarness, Harness, LEASE, RETENTION, Rule, StreamHarness, TransactionalHarness,
    dropped::{POLLS, dropped_after},
    open::Open,
    outbox::Event,
    reader::Reader,
    scene::unique,
};

/// The transaction that a harness' store opens.
type Transaction<H> =
    <<H as Harness>::Store as TransactionalStore<<H as TransactionalHarness>::Tx>>::Transaction;

/// A stream whose handler writes in a transaction.
struct Writer<'a, H: StreamHarness + BatchHarness> {
    reader: Reader<'a, H>,
    store: Arc<H::Store>,
    /// The name of what the handler writes.
    effect: String,
}

impl<'a, H: StreamHarness + BatchHarness> Writer<'a, H> {
    fn new(harness: &'a H) -> Self {
        let reader = Reader::new(harness, Rule::MarkCommits);
        let store = reader.scene.store();
        Self {
            reader,
            store,
            effect: unique(),
        }
    }

    /// Opens a transaction and writes in it, as the handler does.
    async fn writes(&self) -> Transaction<H> {
        let opened = TransactionalStore::<H::Tx>::open(&*self.store, Opening::Batch).await;
        let mut transaction = Rule::MarkCommits.answer(opened);
        H::write_effect(H::Store::lend(&mut transaction), &self.effect).await;
        transaction
    }

    async fn finish(&self, transaction: Transaction<H>, finish: Finish<'_>) -> Finished {
        let finished = TransactionalStore::<H::Tx>::finish(&*self.store, transaction, finish).await;
        Rule::MarkCommits.answer(finished)
    }

    /// Writes, and commits with the mark.
    async fn moves(&self, lease: &StreamLease, from: u64, to: u64) -> Finished {
        let transaction = self.writes().await;
        let mark = MarkMove::new(lease, from, to);
        self.finish(transaction, moving(mark, &[])).await
    }

    async fn must_move(&self, lease: &StreamLease, from: u64, to: u64) {
        let finished = self.moves(lease, from, to).await;
        self.ended(&finished, &Finished::Committed, "it reads the stream");
    }

    async fn must_be_fenced(&self, lease: &StreamLease, from: u64, to: u64, why: &str) {
        let finished = self.moves(lease, from, to).await;
        self.ended(&finished, &Finished::Fenced, why);
    }

    fn ended(&self, finished: &Finished, expected: &Finished, why: &str) {
        self.reader.scene.holds(
            finished == expected,
            &format!("{why}: expected {expected:?}, the store answered {finished:?}"),
        );
    }

    /// Checks how often the handler's effect is there, and where the mark is.
    async fn is(&self, effects: u64, mark: Option<u64>, why: &str) {
        let scene = &self.reader.scene;
        scene.has_effects(&self.effect, effects, why).await;
        self.has_mark(mark, why).await;
    }

    async fn has_mark(&self, mark: Option<u64>, why: &str) {
        let scene = &self.reader.scene;
        let seen = self.store.look_at_stream(scene.key()).await;
        let seen = Rule::MarkCommits.answer(seen).and_then(|it| it.mark);
        scene.holds(
            seen == mark,
            &format!("{why}: expected the mark {mark:?}, found {seen:?}"),
        );
    }
}

fn moving<'a>(mark: MarkMove<'a>, outgoing: &'a [Outgoing]) -> Finish<'a> {
    Finish::MoveMark { mark, outgoing }
}

/// Before the commit neither is to be seen, after it both are. A stream that was never read begins at 0.
pub async fn the_mark_moves_with_what_was_written<H: StreamHarness + BatchHarness>(harness: &H) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    let transaction = writer.writes().await;
    let effect = &writer.effect;
    let why = "nothing is committed yet";
    writer.reader.scene.has_effects(effect, 0, why).await;
    let mark = MarkMove::new(&lease, 0, 1);
    let finished = writer.finish(transaction, moving(mark, &[])).await;
    writer.ended(&finished, &Finished::Committed, "nothing speaks against it");
    writer.is(1, Some(1), "it was committed").await;
    writer.must_move(&lease, 1, 2).await;
    writer.is(2, Some(2), "the next one was committed").await;
    let reader = &writer.reader;
    reader.releases(&lease, None, Applied, "it has it").await;
    reader.acquires(Some(2), "the next one goes on there").await;
}

/// The commit's answer was lost, and the message is handled once more.
pub async fn a_mark_that_was_moved_before_commits_nothing<H: StreamHarness + BatchHarness>(
    harness: &H,
) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    writer.must_move(&lease, 0, 1).await;
    let why = "what is below the mark is done";
    writer.must_be_fenced(&lease, 0, 1, why).await;
    writer.is(1, Some(1), why).await;
    let reader = &writer.reader;
    reader.extends(&lease, 7, Applied, "it has it").await;
    writer.must_be_fenced(&lease, 6, 9, why).await;
    writer.is(1, Some(7), why).await;
    writer.must_move(&lease, 7, 8).await;
    writer.is(2, Some(8), "it is the next one").await;
}

/// A worker slept beyond its lease, and another reads.
pub async fn who_was_taken_over_commits_nothing<H: StreamHarness + BatchHarness>(harness: &H) {
    let writer = Writer::new(harness);
    let old = writer.reader.acquires(None, "nobody has read it").await;
    writer.must_move(&old, 0, 1).await;
    writer.reader.scene.advance(LEASE).await;
    let why = "the lease has run out";
    let new = writer.reader.acquires(Some(1), why).await;
    let why = "another one reads it";
    writer.must_be_fenced(&old, 1, 2, why).await;
    writer.is(1, Some(1), why).await;
    writer.must_move(&new, 1, 2).await;
    writer.must_be_fenced(&old, 2, 3, why).await;
    writer.is(2, Some(2), why).await;
    let reader = &writer.reader;
    reader.releases(&new, None, Applied, "it has it").await;
    writer.must_be_fenced(&new, 2, 3, "it was given back").await;
    writer.is(2, Some(2), "it was given back").await;
}

/// A person wants it to go on elsewhere.
pub async fn whose_mark_was_set_by_hand_commits_nothing<H: StreamHarness + BatchHarness>(
    harness: &H,
) {
    let writer = Writer::new(harness);
    let old = writer.reader.acquires(None, "nobody has read it").await;
    writer.must_move(&old, 0, 9).await;
    for mark in [Some(4), None] {
        writer.reader.sets(mark).await;
        let why = "the mark was set meanwhile";
        writer.must_be_fenced(&old, 9, 10, why).await;
        writer.is(1, mark, why).await;
    }
    let new = writer.reader.acquires(None, "the mark was set").await;
    writer.must_move(&new, 0, 1).await;
    writer.is(2, Some(1), "it reads it anew").await;
}

/// Offsets need not be next to each other, and what was done in another way has not moved the mark yet.
pub async fn a_mark_moves_over_a_hole<H: StreamHarness + BatchHarness>(harness: &H) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    writer.must_move(&lease, 0, 5).await;
    writer.is(1, Some(5), "four have no message").await;
    writer.must_move(&lease, 8, 9).await;
    writer
        .is(2, Some(9), "three were done before and left no mark")
        .await;
    writer.must_move(&lease, 9, (1 << 53) - 1).await;
    writer
        .is(3, Some((1 << 53) - 1), "it is the greatest")
        .await;
}

/// A heartbeat alone prolongs it.
pub async fn a_move_leaves_the_lease_as_it_is<H: StreamHarness + BatchHarness>(harness: &H) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    writer.must_move(&lease, 0, 1).await;
    writer
        .reader
        .is_held(LEASE, "it was claimed just now")
        .await;
    writer.reader.scene.advance(LEASE / 2).await;
    writer.must_move(&lease, 1, 2).await;
    let why = "half of it is over";
    writer.reader.is_held(LEASE / 2, why).await;
    writer.reader.scene.advance(LEASE / 2).await;
    let why = "the lease has run out";
    writer.reader.acquires(Some(2), why).await;
}

/// The work took long, but nobody has taken over.
pub async fn a_lease_that_ran_out_still_commits<H: StreamHarness + BatchHarness>(harness: &H) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    writer.reader.scene.advance(2 * LEASE).await;
    writer.must_move(&lease, 0, 1).await;
    writer.is(1, Some(1), "nobody has taken over").await;
}

/// The message is handled once more, from the same mark.
pub async fn a_roll_back_moves_no_mark<H: StreamHarness + BatchHarness>(harness: &H) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    let transaction = writer.writes().await;
    let finished = writer.finish(transaction, Finish::RollBack).await;
    writer.ended(&finished, &Finished::RolledBack, "it was asked for");
    writer.is(0, None, "it was rolled back").await;
    writer.must_move(&lease, 0, 1).await;
    writer.is(1, Some(1), "only the second try counts").await;
}

/// A handler that ends its transaction by itself has taken the mark apart from what it has written.
pub async fn a_transaction_that_the_handler_ended_moves_no_mark<H: StreamHarness + BatchHarness>(
    harness: &H,
) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    for commits in [false, true] {
        let mut transaction = writer.writes().await;
        let lent = H::Store::lend(&mut transaction);
        if commits {
            H::commit_early(lent).await;
        } else {
            H::roll_back_early(lent).await;
        }
        let mark = MarkMove::new(&lease, 0, 1);
        let finished = writer.finish(transaction, moving(mark, &[])).await;
        writer.reader.scene.holds(
            matches!(finished, Finished::Refused { .. }),
            &format!("the handler ended the transaction, the store answered {finished:?}"),
        );
        writer.has_mark(None, "the handler has ended it").await;
    }
    writer.must_move(&lease, 0, 1).await;
    writer.has_mark(Some(1), "the store has committed it").await;
}

/// A worker stops waiting for its commit: the mark was moved, with the effect, or nothing was done.
pub async fn a_move_that_was_dropped_midway_is_whole_or_nothing<H: StreamHarness + BatchHarness>(
    harness: &H,
) {
    for polls in POLLS {
        let writer = Writer::new(harness);
        let lease = writer.reader.acquires(None, "nobody has read it").await;
        let transaction = writer.writes().await;
        let mark = MarkMove::new(&lease, 0, 1);
        dropped_after(polls, writer.finish(transaction, moving(mark, &[]))).await;
        writer.reader.scene.advance(LEASE).await;
        // From here on the first one is fenced, if it has not committed before.
        let next = writer.reader.claims("the lease has run out").await;
        let effects = u64::from(next == Some(1));
        writer.is(effects, next, "it is whole or nothing").await;
    }
}

/// A handler with a key: its record is completed, and the mark is moved, by one commit.
pub async fn a_completion_moves_the_mark_with_it<H: StreamHarness + BatchHarness>(harness: &H) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    let scene = &writer.reader.scene;
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&writer.effect).await;
    let finished = open.commit_moving(MarkMove::new(&lease, 0, 1)).await;
    writer.ended(&finished, &Finished::Committed, "nothing speaks against it");
    writer.is(1, Some(1), "it was committed").await;
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "completed in the same commit");
}

/// Who is fenced in the stream leaves nothing behind, and its key to whoever has it.
pub async fn a_completion_whose_mark_is_fenced_completes_nothing<
    H: StreamHarness + BatchHarness,
>(
    harness: &H,
) {
    let writer = Writer::new(harness);
    let old = writer.reader.acquires(None, "nobody has read it").await;
    writer.must_move(&old, 0, 1).await;
    writer.reader.scene.advance(LEASE).await;
    let new = writer.reader.acquires(Some(1), "the lease has run out");
    let new = new.await;
    let scene = &writer.reader.scene;
    for (mark, why) in [
        (MarkMove::new(&old, 1, 2), "another one reads it"),
        (MarkMove::new(&new, 0, 1), "the mark was moved before"),
    ] {
        let claimant = scene.claimant();
        let mut open = Open::<H>::of(&claimant).await;
        open.write_effect(&writer.effect).await;
        let finished = open.commit_moving(mark).await;
        writer.ended(&finished, &Finished::Fenced, why);
        writer.is(1, Some(1), why).await;
        scene.claimant().claim().await.is_held(why);
        scene.advance(LEASE).await;
    }
}

/// Who has lost its key moves no mark.
pub async fn a_completion_that_is_fenced_moves_no_mark<H: StreamHarness + BatchHarness>(
    harness: &H,
) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    let scene = &writer.reader.scene;
    let mut zombie = Open::<H>::of(&scene.claimant()).await;
    scene.advance(LEASE).await;
    let successor = scene.claimant().claim().await;
    let successor = successor.is_acquired("the lease has run out");
    let why = "nobody else reads it";
    writer.reader.extends(&lease, None, Applied, why).await;
    zombie.write_effect(&writer.effect).await;
    let finished = zombie.commit_moving(MarkMove::new(&lease, 0, 1)).await;
    let why = "another has taken the key over";
    writer.ended(&finished, &Finished::Fenced, why);
    writer.is(0, None, why).await;
    let written = successor.complete("done").await;
    written.is_applied("it is the holder");
}

/// The mark of a batch would have to stand with one of its messages: nobody asks for that, and nothing is done.
pub async fn several_completions_with_a_mark_are_refused<H: StreamHarness + BatchHarness>(
    harness: &H,
) {
    let writer = Writer::new(harness);
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    let scene = &writer.reader.scene;
    let holder = scene.acquired().await;
    let outcome = Outcome::new("done");
    let mark = MarkMove::new(&lease, 0, 1);
    let done = Completion::new(&holder.lease, &outcome, RETENTION).moving(Some(mark));
    let transaction = writer.writes().await;
    let several = Finish::CompleteAll(&[done]);
    let finished = TransactionalStore::<H::Tx>::finish(&*writer.store, transaction, several).await;
    let why = format!("it is not done, but the store answered {finished:?}");
    scene.holds(finished.is_err(), &why);
    writer.is(0, None, "it was refused").await;
    scene.claimant().claim().await.is_held("it was refused");
}

/// With the writes and the mark, and not without them.
pub async fn what_was_published_commits_with_the_mark<H: StreamHarness + BatchHarness>(
    harness: &H,
) {
    let writer = Writer::new(harness);
    let key = writer.reader.scene.key();
    let Some(table) = TransactionalStore::<H::Tx>::outbox(&*writer.store) else {
        return;
    };
    let listing = OutboxListing {
        prefix: key.to_string(),
        limit: 100,
        ..OutboxListing::default()
    };
    let lease = writer.reader.acquires(None, "nobody has read it").await;
    for expected in [Finished::Committed, Finished::Fenced] {
        let outbox = Outbox::for_key(key);
        for _ in 0..2 {
            let event = Event(b"moved".to_vec());
            outbox.publish(event).expect("it is short");
        }
        let outgoing = outbox.messages();
        let transaction = writer.writes().await;
        let mark = MarkMove::new(&lease, 0, 1);
        let finished = writer.finish(transaction, moving(mark, &outgoing)).await;
        writer.ended(&finished, &expected, "the first one counts");
        writer.is(1, Some(1), "the first one counts").await;
        let listed = Rule::MarkCommits.answer(table.list(&listing).await);
        writer.reader.scene.holds(
            listed.len() == 2,
            &format!("it has published two, and the outbox has {}", listed.len()),
        );
    }
}
