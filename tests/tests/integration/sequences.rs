//! Numbered messages: a mark for each producer, and nothing lost or done twice.

use std::{iter, time::Duration};

use idem_amqp::{
    Failed, MemoryStore, Publication, Publisher, Queue, Worker,
    dead_letters::Selection,
    executor::ExecutionKind as Kind,
    store::Purge,
    worker::{ProblemKind, Settlement},
};
use idem_tests::{
    bed::{Bed, QUICK},
    journal::within,
    laddered::{DELAY, SECOND_RUNG, laddered, rungs},
    proxy::Proxy,
    readings::{
        Reading, ids, send, send_stamped, store, store_many, store_narrowly, store_soon,
        store_stamped,
    },
    running::{Running, assert_balance},
    script::{Order, Script},
};

use crate::replays::{replayer, tally, until_dead};

/// A worker of one device's numbers, on a ladder with short rungs.
fn storing<S: Purge + Clone>(bed: &Bed, store: S, script: &Script) -> Running {
    let worker = Worker::builder(store).state(script.clone());
    bed.start(worker.consume::<store>(laddered(bed.queue())))
}

/// A script that fails for this number until it is the third attempt.
fn failing_for(number: u64) -> Script {
    let failing = Reading::new(number).id();
    Script::new(move |call| {
        let fails = call.id == failing && call.attempt < 3;
        async move {
            if fails {
                return Err(Failed::retry_after(DELAY, "the disk is full"));
            }
            Ok(())
        }
    })
}

fn waits(kind: &ProblemKind) -> bool {
    matches!(kind, ProblemKind::Gap { .. })
}

/// A queue on whose ladder thousands can wait: a busy broker returns them more slowly than they would come
/// back from short rungs alone, and what they wait for would be among them.
pub(crate) fn with_a_long_rung(queue: Queue) -> Queue {
    queue.ladder(rungs([SECOND_RUNG, Duration::from_secs(5)]))
}

/// How many messages pass while one number is delayed.
const ALL: u64 = 2000;

/// One number goes over the ladder, twice, while thousands pass; some of them come twice, and two
/// workers are at them. The script fails for the number; says which readings took effect.
pub(crate) async fn delay(start: impl Fn(&Bed, &Script) -> Running) -> Vec<String> {
    let bed = Bed::with_vhost().await;
    bed.declare(&with_a_long_rung(bed.queue())).await;
    let script = failing_for(3);
    let workers = [(); 2].map(|()| start(&bed, &script));
    bed.until_consumed(bed.name(), 2).await;
    let copies = |number| if number % 10 == 0 { 2 } else { 1 };
    let all = (0..ALL).flat_map(|number| iter::repeat_n(number, copies(number)));
    send(&bed, all).await;
    let effects = script.effects.clone();
    let all = usize::try_from(ALL).unwrap();
    // A part at a time: a machine that is busy takes long for all of them.
    for part in 1..=10 {
        effects
            .count("more have their effect", all * part / 10)
            .await;
    }
    bed.until_settled().await;

    let mut counts = [0; 4];
    for worker in workers {
        let balance = worker.stop().await;
        let kinds = [Kind::Executed, Kind::Duplicate, Kind::Failed, Kind::Late];
        for (count, kind) in counts.iter_mut().zip(kinds) {
            *count += balance.of(kind);
        }
    }
    assert_eq!(counts, [ALL, ALL / 10, 2, 0]);
    let expected = ids(0..ALL);
    script.assert_effects(&expected);
    bed.assert_nothing_stuck().await;
    expected
}

/// The same, with a leased handler on this store.
pub(crate) async fn delayed_number<S: Purge + Clone>(on: S) {
    delay(|bed, script| {
        let worker = Worker::builder(on.clone()).state(script.clone());
        bed.start(worker.consume::<store_many>(with_a_long_rung(bed.queue())))
    })
    .await;
}

/// A number fails, and comes back from the ladder while thousands pass, copies among them, at two workers.
///
/// - does: runs it again; the mark waits for it; copies are duplicates
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_number_that_is_delayed_while_thousands_pass_is_neither_lost_nor_doubled() {
    delayed_number(MemoryStore::new()).await;
}

/// Copies that come when the mark has passed them long ago.
pub(crate) async fn copies_far_below<S: Purge + Clone>(on: S) {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let worker = storing(&bed, on, &script);
    bed.until_consumed(bed.name(), 1).await;
    send(&bed, 0..300).await;
    worker.ended(Kind::Executed, 300).await;
    send(&bed, 0..20).await;
    worker.ended(Kind::Duplicate, 20).await;
    let copies = worker.settled.entries().into_iter();
    let copies = copies.filter(|ended| ended.kind == Kind::Duplicate);
    assert!(
        copies
            .into_iter()
            .all(|ended| ended.settlement == Settlement::Ack)
    );
    worker.stop().await;
    script.assert_effects(ids(0..300));
    bed.assert_nothing_stuck().await;
}

/// A copy comes when the mark has passed its number long ago.
///
/// - does: acknowledges it, does not run it
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_copy_far_below_the_mark_is_acknowledged_without_running() {
    copies_far_below(MemoryStore::new()).await;
}

/// The missing number comes behind more messages than may be held.
pub(crate) async fn missing_number_behind<S: Purge + Clone>(on: S) {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let queue = laddered(bed.queue()).prefetch(4).concurrency(2);
    bed.declare(&queue).await;
    send(&bed, [0]).await;
    send(&bed, 60..100).await;
    let worker = Worker::builder(on).state(script.clone());
    let worker = bed.start(worker.consume::<store>(queue));
    worker.ended(Kind::Ahead, 10).await;
    worker
        .until("its health tells", |health| {
            let problems = health.problems();
            let gap = problems.iter().find(|problem| waits(&problem.kind));
            health.is_ready()
                && gap.is_some_and(|gap| {
                    gap.error.as_deref() == Some("`readings.store:d-7:1` waits for 1")
                })
        })
        .await;
    send(&bed, 1..60).await;

    worker.ended(Kind::Executed, 100).await;
    worker
        .until("it is well again", |health| health.problems().is_empty())
        .await;
    let balance = worker.stop().await;
    assert!(balance.of(Kind::Ahead) >= 10, "{balance}");
    assert_eq!(
        balance.deliveries(),
        100 + balance.of(Kind::Ahead),
        "{balance}"
    );
    script.assert_effects(ids(0..100));
    assert!(script.attempts().iter().all(|attempt| *attempt == 1));
    bed.assert_nothing_stuck().await;
}

/// A number is missing, and more messages wait for it than may wait in the worker.
///
/// - does: lets those wait on the ladder, handles the number when it comes; log and health tell what is missing
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_number_behind_more_that_wait_for_it_than_may_be_held_is_handled_and_its_lack_told() {
    missing_number_behind(MemoryStore::new()).await;
}

/// Numbers that come in any order, many times as many as the window and the worker take.
///
/// - does: lets in those whose turn it is, however many of the others come first
/// - leased: once each
#[tokio::test]
async fn numbers_in_any_order_pass_a_narrow_window_without_a_pause_for_each() {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<store_narrowly>(laddered(bed.queue())));
    bed.until_consumed(bed.name(), 1).await;
    // The sequence begins with the number that is seen first.
    send_stamped(&bed, [0]).await;
    script.effects.count("the first takes effect", 1).await;
    let mut numbers: Vec<_> = (1..100).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut numbers);
    send_stamped(&bed, numbers).await;
    script.effects.count("all take effect", 100).await;
    bed.until_settled().await;
    worker.stop().await;
    script.assert_effects((0..100).map(|number: u64| number.to_string()));
    bed.assert_nothing_stuck().await;
}

/// A producer that goes on from this number until something has happened, so that somebody keeps waiting:
/// after a pause no gap is skipped. Answers the next number.
async fn goes_on(bed: &Bed, mut number: u64, until: impl Future<Output = ()>) -> u64 {
    let mut until = std::pin::pin!(until);
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            () = &mut until => return number,
            _ = pace.tick() => {
                send(bed, [number]).await;
                number += 1;
            }
        }
    }
}

/// A number that never came is passed, comes, and is sent again.
pub(crate) async fn skipped_number<S: Purge + Clone>(on: S) {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = Script::succeeding();
    let worker = Worker::builder(on).state(script.clone());
    let worker = bed.start(worker.consume::<store_soon>(queue));
    send(&bed, (0..=60).filter(|number| *number != 1)).await;
    let number = goes_on(&bed, 61, worker.ended(Kind::Executed, 60)).await;
    let all = usize::try_from(number).unwrap();
    worker.ended(Kind::Executed, all - 1).await;

    send(&bed, [1]).await;
    worker.ended(Kind::Late, 1).await;
    until_dead(&bed, 1).await;
    let replayer = replayer(&bed);
    let letters = replayer.look(&Selection::all()).await.unwrap();
    let late: Vec<_> = letters
        .iter()
        .map(|letter| (letter.reason(), letter.key()))
        .collect();
    assert_eq!(late, [("late", Some("readings.store:d-7:1~1"))]);
    let sent = replayer.replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(sent), [1, 1, 0, 0, 0]);
    worker.ended(Kind::Executed, all).await;

    // Now it is done like all others.
    send(&bed, [1]).await;
    worker.ended(Kind::Duplicate, 1).await;
    worker.stop().await;
    script.assert_effects(ids(0..number));
    bed.assert_nothing_stuck().await;
}

/// A number never came, and the gap policy passes it; then it comes.
///
/// - does: dead-letters it, reason `late`; a replay executes
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_number_that_was_passed_is_dead_lettered_as_late_and_a_replay_of_it_executes() {
    skipped_number(MemoryStore::new()).await;
}

/// A rejected number is passed; what comes of it later is late, until a person sends it again.
pub(crate) async fn rejected_number<S: Purge + Clone>(on: S) {
    let bed = Bed::with_vhost().await;
    let rejected = Reading::new(1).id();
    let script = Script::new(move |call| {
        let rejects = call.id == rejected;
        async move {
            if rejects {
                return Err(Failed::rejected("no such sensor"));
            }
            Ok(())
        }
    });
    let worker = storing(&bed, on, &script);
    bed.until_consumed(bed.name(), 1).await;
    send(&bed, 0..200).await;
    worker.ended(Kind::Rejected, 1).await;
    worker.ended(Kind::Executed, 199).await;
    send(&bed, [1]).await;
    worker.ended(Kind::Late, 1).await;
    let [first, second] = [bed.dead_letter().await, bed.dead_letter().await];
    assert_eq!([first.reason(), second.reason()], ["rejected", "late"]);
    worker.stop().await;
    script.assert_effects(ids((0..200).filter(|number| *number != 1)));
    bed.assert_nothing_stuck().await;
}

/// A number is rejected, and a copy of it comes when the mark has passed it.
///
/// - does: dead-letters both; no later number waits
/// - atomic: not again
/// - leased: not again
#[tokio::test]
async fn a_number_that_was_rejected_stops_no_later_one_and_a_copy_of_it_is_late() {
    rejected_number(MemoryStore::new()).await;
}

/// A producer begins anew, in another epoch.
///
/// - does: keeps a mark for each epoch
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_producer_that_begins_anew_counts_anew_in_another_epoch() {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let worker = storing(&bed, MemoryStore::new(), &script);
    bed.until_consumed(bed.name(), 1).await;
    let of = |boot| {
        (0..80).map(move |seq| Reading {
            boot,
            ..Reading::new(seq)
        })
    };
    for boot in [1, 2] {
        for reading in of(boot) {
            bed.json(&reading).await;
        }
    }
    worker.ended(Kind::Executed, 160).await;
    // A message of the first epoch that comes once more, after the second has begun.
    send(&bed, [5]).await;
    worker.ended(Kind::Duplicate, 1).await;
    worker.stop().await;
    script.assert_effects(of(1).chain(of(2)).map(|reading| reading.id()));
    bed.assert_nothing_stuck().await;
}

/// A publisher repeats a numbered message whose confirm was lost.
///
/// - does: finds the same number
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn what_a_publisher_published_again_after_a_lost_confirm_is_a_duplicate() {
    let bed = Bed::with_vhost().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<store_stamped>(laddered(bed.queue())));
    bed.until_consumed(bed.name(), 1).await;
    let publisher = Publisher::connect(bed.url_by(proxy.port(), ""))
        .await
        .unwrap();
    let publisher = publisher.sequence("till-4").unwrap();
    for id in ["a", "b", "c"] {
        if id == "b" {
            proxy.lose_next_answer();
        }
        let message = Publication::json(bed.name(), &Order::new(id));
        let call = publisher.publish(&message);
        within("it is confirmed", call).await.unwrap();
    }
    worker.ended(Kind::Duplicate, 1).await;
    worker.ended(Kind::Executed, 3).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 3), (Kind::Duplicate, 1)]);
    script.assert_effects(["a", "b", "c"]);
    bed.assert_nothing_stuck().await;
}

/// A numbered message fails, is dead-lettered and sent again.
///
/// - does: carries its sequence headers over each time: it is the same number
/// - atomic: keeps its number
/// - leased: keeps its number
#[tokio::test]
async fn a_message_keeps_its_number_over_the_ladder_and_as_a_dead_letter_sent_again() {
    let bed = Bed::with_vhost().await;
    let script = Script::new(|call| async move {
        match call.attempt {
            1 => Err(Failed::retry_after(DELAY, "the disk is full")),
            _ => Err(Failed::rejected("no such sensor")),
        }
    });
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<store_stamped>(queue));
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let publisher = publisher.sequence("till-4").unwrap();
    let message = Publication::json(bed.name(), &Order::new("a"));
    publisher.publish(&message).await.unwrap();
    worker.ended(Kind::Rejected, 1).await;
    until_dead(&bed, 1).await;

    let replayer = replayer(&bed);
    let letters = replayer.look(&Selection::all()).await.unwrap();
    let told = ["idem-producer", "idem-epoch", "idem-sequence"]
        .map(|name| letters[0].header(name).unwrap().into_owned());
    assert_eq!(
        told,
        ["till-4".to_owned(), publisher.epoch(), "0".to_owned()]
    );
    let key = format!("readings.store:till-4:{}~0", publisher.epoch());
    assert_eq!(letters[0].key(), Some(&*key));
    replayer.replay(&Selection::all()).await.unwrap();
    worker.ended(Kind::Rejected, 2).await;
    let kinds = worker.settled.entries().into_iter().map(|ended| ended.kind);
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(
        kinds,
        [Kind::Failed, Kind::Rejected, Kind::Failed, Kind::Rejected]
    );
    worker.stop().await;
    assert_eq!(bed.dead_letter().await.header("idem-key"), Some(key));
    bed.assert_nothing_stuck().await;
}

/// A message of a numbered stream has no number.
///
/// - does: dead-letters it, reason `keyless`, never runs it
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_message_without_a_number_is_dead_lettered_as_keyless() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<store_stamped>(bed.queue()));
    bed.order("a").await;
    worker.ended(Kind::Keyless, 1).await;
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "keyless");
    assert!(
        letter.error().contains("header(idem-producer)"),
        "{}",
        letter.error()
    );
    worker.stop().await;
    script.assert_effects([""; 0]);
    bed.assert_nothing_stuck().await;
}

/// The store keeps no sequences, or the handler is to fail open.
///
/// - does: does not start: one error that says what to change
#[tokio::test]
async fn numbered_messages_are_not_consumed_without_a_store_that_keeps_sequences() {
    let bed = Bed::new().await;
    let fails_open = QUICK
        .to_builder()
        .store_outage(idem_amqp::handler::StoreOutage::FailOpen);
    let queue = bed.queue().policy(fails_open.build().unwrap());
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let error = bed.start(worker.consume::<store>(queue)).failed().await;
    assert!(
        error.to_string().contains("leave `store_outage` out"),
        "{error}"
    );

    let worker = Worker::builder(plain::Plain(MemoryStore::new())).state(Script::succeeding());
    let error = bed
        .start(worker.consume::<store>(bed.queue()))
        .failed()
        .await;
    let words = "the store keeps no sequences: use one that does";
    assert!(error.to_string().contains(words), "{error}");
    bed.assert_nothing_stuck().await;
}

/// A store that keeps nothing but keys.
mod plain {
    use std::time::Duration;

    use idem_amqp::{
        MemoryStore, Store, StoreError,
        handler::Outcome,
        store::{Claim, ClaimRequest, Lease, Purge, Release, Write},
    };

    #[derive(Debug, Clone)]
    pub(super) struct Plain(pub(super) MemoryStore);

    impl Store for Plain {
        async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
            self.0.claim(request).await
        }

        async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
            self.0.extend(lease, by).await
        }

        async fn complete(
            &self,
            lease: &Lease,
            outcome: &Outcome,
            retention: Duration,
        ) -> Result<Write, StoreError> {
            self.0.complete(lease, outcome, retention).await
        }

        async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
            self.0.release(lease, reason).await
        }
    }

    impl Purge for Plain {
        async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
            self.0.purge(batch).await
        }
    }
}
