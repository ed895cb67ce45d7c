//! Copies of a message: one is executed, the others are acknowledged without running.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::join_all;
use idem_amqp::{
    MemoryStore, Policy, Publication, Publisher, Queue, Worker,
    executor::ExecutionKind as Kind,
    handler::{OnConflict, OnDuplicate},
    prelude::*,
    worker::Settlement,
};
use idem_tests::{
    bed::{Bed, QUICK, dead},
    cell::Cell,
    interfered::{Call, Fate, Interfered},
    journal::{Journal, eventually, within},
    laddered::body,
    log::Log,
    metered::Metered,
    on_each_store, on_further_stores,
    proxy::Proxy,
    requester::Requester,
    running::{assert_balance, assert_dropped},
    script::{Order, Script, charge, notify},
};
use lapin::BasicProperties;
use tokio::{sync::Semaphore, time::Instant};

use crate::dead_letters::send_again;

/// A handler that waits, with slow orders, until the test lets it go on.
fn waiting() -> (Script, Arc<Semaphore>) {
    let go_on = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go_on);
    let script = Script::new(move |call| {
        let gate = Arc::clone(&gate);
        async move {
            if call.id.starts_with("slow") {
                gate.acquire().await?.forget();
            }
            Ok(())
        }
    });
    (script, go_on)
}

/// A handler that rejects all until it is told not to, and then waits with slow orders.
fn rejecting_and_waiting() -> (Script, Arc<AtomicBool>, Arc<Semaphore>) {
    let (rejects, go_on) = (Arc::new(AtomicBool::new(true)), Arc::new(Semaphore::new(0)));
    let (rejecting, gate) = (Arc::clone(&rejects), Arc::clone(&go_on));
    let script = Script::new(move |call| {
        let (rejecting, gate) = (Arc::clone(&rejecting), Arc::clone(&gate));
        async move {
            if rejecting.load(SeqCst) {
                return Err(Failed::rejected("not yet"));
            }
            if call.id.starts_with("slow") {
                gate.acquire().await?.forget();
            }
            Ok(())
        }
    });
    (script, rejects, go_on)
}

/// A copy comes after the first was executed.
///
/// - does: acknowledges it, does not run it
/// - atomic: once
/// - leased: once
async fn a_copy_that_comes_later_is_acknowledged_without_running<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.order("a").await;
    bed.order("a").await;

    worker.ended(Kind::Duplicate, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 2)]);
    assert_eq!(script.attempts(), [1]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A copy comes after the first was executed, and the policy is to dead-letter copies.
///
/// - does: dead-letters it, `duplicate`, and does not run it
/// - atomic: once
/// - leased: once
async fn a_copy_of_what_is_done_is_dead_lettered_if_the_policy_says_so<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let policy = Policy::builder().on_duplicate(OnDuplicate::DeadLetter);
    let queue = bed.queue().policy(policy.build().unwrap());
    let worker = bed.start(cell.worker(&script).consume::<C::Charge>(queue));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.order("a").await;

    assert_eq!(bed.dead_letter().await.reason(), "duplicate");
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A copy comes while the first is being handled, and the policy is to drop such copies.
///
/// - does: acknowledges it, logs and counts it as dropped, does not run it
/// - atomic: once
/// - leased: once
async fn a_copy_of_what_is_being_handled_is_dropped_if_the_policy_says_so<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (script, go_on) = waiting();
    let policy = Policy::builder().on_conflict(OnConflict::Ack);
    let queue = bed.queue().policy(policy.build().unwrap());
    let (log, metered) = (Log::default(), Metered::default());
    let _kept = log.capture();
    let worker = {
        let _recorded = metered.record();
        bed.start(cell.worker(&script).consume::<C::Charge>(queue))
    };
    bed.order("slow").await;
    script.calls.count("the first is being handled", 1).await;
    bed.order("slow").await;

    worker.ended(Kind::Conflict, 1).await;
    go_on.add_permits(1);
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Conflict, 1)]);
    assert_dropped(&balance, &metered, &log, 1);
    cell.assert_effects(&script, ["slow"]).await;
    bed.assert_nothing_stuck().await;
}

/// A copy comes while the first is being handled, and the policy is to dead-letter such copies.
///
/// - does: dead-letters it, `conflict`, and does not run it
/// - atomic: once
/// - leased: once
async fn a_copy_of_what_is_being_handled_is_dead_lettered_if_the_policy_says_so<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (script, go_on) = waiting();
    let policy = Policy::builder().on_conflict(OnConflict::DeadLetter);
    let queue = bed.queue().policy(policy.build().unwrap());
    let worker = bed.start(cell.worker(&script).consume::<C::Charge>(queue));
    bed.order("slow").await;
    script.calls.count("the first is being handled", 1).await;
    bed.order("slow").await;

    assert_eq!(bed.dead_letter().await.reason(), "conflict");
    worker.ended(Kind::Conflict, 1).await;
    go_on.add_permits(1);
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Conflict, 1)]);
    cell.assert_effects(&script, ["slow"]).await;
    bed.assert_nothing_stuck().await;
}

/// A copy comes while the first is being handled, and the policy is to give such copies back.
///
/// - does: requeues it after a pause, again and again until the first has ended; does not run it
/// - atomic: once
/// - leased: once
async fn a_copy_of_what_is_being_handled_is_given_back_if_the_policy_says_so<C: Cell>() {
    // Copies wait on the rungs of a ladder, which the queues of a vhost share.
    let (bed, cell) = (Bed::with_vhost().await, C::open().await);
    let (script, go_on) = waiting();
    let policy = Policy::builder().on_conflict(OnConflict::Requeue);
    let queue = bed.queue().policy(policy.build().unwrap());
    bed.declare(&queue).await;
    let worker = bed.start(cell.worker(&script).consume::<C::Charge>(queue));
    bed.order("slow").await;
    script.calls.count("the first is being handled", 1).await;
    let sent = Instant::now();
    bed.order("slow").await;

    worker.ended(Kind::Conflict, 2).await;
    let away = sent.elapsed();
    match worker.settled.entries()[0].settlement {
        Settlement::Retry { after } | Settlement::Requeue { after } => {
            assert!(!after.is_zero() && away >= after, "{away:?}, not {after:?}");
        }
        other => panic!("{other:?}"),
    }
    go_on.add_permits(1);
    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    let ends = [
        (Kind::Executed, 1),
        (Kind::Duplicate, 1),
        (Kind::Conflict, balance.of(Kind::Conflict)),
    ];
    assert_balance(&balance, ends);
    assert_eq!(balance.dropped(), 0);
    cell.assert_effects(&script, ["slow"]).await;
    bed.assert_nothing_stuck().await;
}

/// A worker vanishes while it handles a message, and the policy is to drop, or to dead-letter, copies of what is being
/// handled.
///
/// - does: the message is delivered again while its own lease lasts: waits for the end of that, and runs
/// - atomic: once
/// - leased: runs again
async fn a_message_is_not_dropped_because_of_its_own_lease<C: Cell>() {
    for on_conflict in [OnConflict::Ack, OnConflict::DeadLetter] {
        let (bed, cell) = (Bed::new().await, C::open().await);
        let policy = Policy::builder().on_conflict(on_conflict);
        let policy = policy.lease(Duration::from_secs(2)).build().unwrap();
        let (script, _never) = waiting();
        let queue = bed.queue().policy(policy);
        let worker = bed.start(cell.worker(&script).consume::<C::Charge>(queue.clone()));
        bed.order("slow").await;
        script.calls.count("it is being handled", 1).await;
        worker.vanish().await;

        let script = Script::succeeding();
        let worker = bed.start(cell.worker(&script).consume::<C::Charge>(queue));
        worker.ended(Kind::Executed, 1).await;
        assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
        cell.assert_effects(&script, ["slow"]).await;
        assert!(bed.drain(&dead(bed.name())).await.is_empty());
        bed.assert_nothing_stuck().await;
    }
}

/// The policy is to dead-letter copies, of what is done and of what is being handled. The copy is a request, a dead
/// letter that was sent again, or was delivered before.
///
/// - does: acknowledges it, and lets it wait before if the first is being handled; answers a request; does not run it
/// - atomic: once
/// - leased: once
async fn copies_that_somebody_asks_for_are_not_dead_lettered<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (requester, metered) = (Requester::on(&bed).await, Metered::default());
    let (script, rejects, go_on) = rejecting_and_waiting();
    let policy = Policy::builder().on_conflict(OnConflict::DeadLetter);
    let policy = policy.on_duplicate(OnDuplicate::DeadLetter);
    let queue = bed.queue().policy(policy.build().unwrap());
    let worker = {
        let _recorded = metered.record();
        bed.start(cell.worker(&script).consume::<C::Charge>(queue.clone()))
    };
    bed.order("a").await;
    let done = bed.dead_letter().await;
    bed.order("slow").await;
    let being_handled = bed.dead_letter().await;
    rejects.store(false, SeqCst);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    send_again(&bed, done).await;
    requester
        .ask(bed.name(), &body("a"), "of what is done")
        .await;
    assert_eq!(requester.reply().await.correlation(), "of what is done");
    worker.ended(Kind::Duplicate, 2).await;
    bed.order("slow").await;
    script.calls.count("it is being handled", 4).await;
    send_again(&bed, being_handled).await;
    requester.ask(bed.name(), &body("slow"), "waits").await;
    metered.until("idem_held", &[], |held| held == 2).await;
    go_on.add_permits(1);
    assert_eq!(requester.reply().await.correlation(), "waits");
    worker.ended(Kind::Duplicate, 4).await;
    let ends = [
        (Kind::Executed, 2),
        (Kind::Duplicate, 4),
        (Kind::Rejected, 2),
    ];
    assert_balance(&worker.stop().await, ends);

    // As if the acknowledgement had been lost.
    bed.order("a").await;
    bed.give_back(bed.name()).await;
    let worker = bed.start(cell.worker(&script).consume::<C::Charge>(queue));
    worker.ended(Kind::Duplicate, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Duplicate, 1)]);
    cell.assert_effects(&script, ["a", "slow"]).await;
    assert!(bed.drain(&dead(bed.name())).await.is_empty());
    bed.assert_nothing_stuck().await;
}

/// The handler finds in its own rows that a message was done before.
///
/// - does: completes the key, acknowledges the message as a duplicate; its copies do not run
/// - atomic: writes rolled back
/// - leased: as the handler left it
async fn what_its_handler_finds_done_is_a_duplicate_and_so_are_its_copies<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |_| Err(Failed::done_before()));
    let worker = cell.charging(&bed, &script);
    for sent in 1..=2 {
        bed.order("a").await;
        worker.ended(Kind::Duplicate, sent).await;
    }
    assert_balance(&worker.stop().await, [(Kind::Duplicate, 2)]);
    assert_eq!(script.attempts(), [1]);
    cell.assert_effects(&script, [""; 0]).await;
    assert!(bed.drain(&dead(bed.name())).await.is_empty());
    bed.assert_nothing_stuck().await;
}

/// Many copies of many messages, in any order.
///
/// - does: runs one of each
/// - atomic: once
/// - leased: once
async fn many_copies_in_any_order_are_executed_once_each<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = cell.worker(&script);
    // All copies may wait in the worker, however slow the store is: none is sent round by the ladder.
    let queue = bed.queue().prefetch(200).concurrency(50).max_waiting(150);
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    let ids: Vec<_> = (0..50).map(|number| format!("o-{number}")).collect();
    let mut copies: Vec<_> = ids.iter().flat_map(|id| [id; 4]).collect();
    fastrand::shuffle(&mut copies);
    join_all(copies.iter().map(|id| bed.order(id))).await;

    worker.ended(Kind::Executed, 50).await;
    worker.ended(Kind::Duplicate, 150).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 50), (Kind::Duplicate, 150)]);
    cell.assert_effects(&script, ids).await;
    bed.assert_nothing_stuck().await;
}

/// A foreign client publishes twice, without any properties.
///
/// - does: finds the key in the body
/// - atomic: once
/// - leased: once
async fn a_bare_message_of_a_foreign_client_sent_twice_is_executed_once<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = cell.charging(&bed, &script);
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    for _ in 0..2 {
        bed.send(bed.name(), &body, BasicProperties::default())
            .await;
    }

    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A copy comes after the retention.
///
/// - does: no longer knows the key
/// - atomic: runs again
/// - leased: runs again
async fn a_copy_that_comes_after_the_retention_runs_again<C: Cell>() {
    const RETENTION: Duration = Duration::from_millis(300);
    let (bed, cell) = (Bed::new().await, C::open().await);
    let policy = QUICK.to_builder().lease(RETENTION).retention(RETENTION);
    let queue = bed.queue().policy(policy.build().unwrap());
    let script = Script::succeeding();
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    tokio::time::sleep(RETENTION).await;
    bed.order("a").await;

    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    assert_eq!(script.attempts(), [1, 1]);
    bed.assert_nothing_stuck().await;
}

#[idempotent(key = message_id(), scope = "identified")]
async fn by_message_id(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// A publisher repeats a publication whose confirm was lost.
///
/// - does: finds the same message id
/// - atomic: once
/// - leased: once
/// - settled by: `duplicates::a_copy_that_comes_later_is_acknowledged_without_running`
#[tokio::test]
async fn a_publication_repeated_after_a_lost_confirm_is_executed_once() {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<by_message_id>(bed.queue()));
    let publisher = Publisher::connect(bed.url_by(proxy.port(), "")).await;
    let publisher = publisher.unwrap();
    let [one, other] = ["a", "b"].map(|id| Publication::json(bed.name(), &Order::new(id)));
    publisher.publish(&other).await.unwrap();
    proxy.lose_next_answer();
    let lost = within("the publisher is told", publisher.publish(&one)).await;
    assert!(lost.is_err(), "its confirm was lost");
    assert_eq!(proxy.lost_answers(), 1);
    worker.ended(Kind::Executed, 2).await;
    within("it is confirmed", publisher.publish(&one))
        .await
        .unwrap();

    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// The same key under two scopes.
///
/// - does: treats them as two units of work
/// - atomic: once each
/// - leased: once each
/// - settled by: `duplicates::many_copies_in_any_order_are_executed_once_each`
#[tokio::test]
async fn the_same_key_under_two_scopes_is_two_units_of_work() {
    let bed = Bed::bare().await;
    let other = bed.another("notify");
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new())
        .state(script.clone())
        .consume::<charge>(bed.queue())
        .consume::<notify>(Queue::quorum(&other).policy(QUICK));
    let worker = bed.start(worker);
    bed.until_consumed(bed.name(), 1).await;
    bed.until_consumed(&other, 1).await;
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    for queue in [bed.name(), &other] {
        bed.send(queue, &body, BasicProperties::default()).await;
    }

    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    let mut queues: Vec<_> = script
        .effects
        .entries()
        .into_iter()
        .map(|e| e.queue)
        .collect();
    queues.sort();
    assert_eq!(queues, [bed.name().to_owned(), other]);
    bed.assert_nothing_stuck().await;
}

/// The same key under one scope, on two queues.
///
/// - does: treats them as one unit of work
/// - atomic: once
/// - leased: once
async fn the_same_key_under_one_scope_is_one_unit_of_work_on_two_queues<C: Cell>() {
    let (bed, cell) = (Bed::bare().await, C::open().await);
    let other = bed.another("other");
    let script = Script::succeeding();
    let worker = cell
        .worker(&script)
        .consume::<C::Charge>(bed.queue())
        .consume::<C::Charge>(Queue::quorum(&other).policy(QUICK));
    let worker = bed.start(worker);
    bed.until_consumed(bed.name(), 1).await;
    bed.until_consumed(&other, 1).await;
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    for queue in [bed.name(), &other] {
        bed.send(queue, &body, BasicProperties::default()).await;
    }

    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A copy comes while another worker is processing the first.
///
/// - does: lets it wait, checks the key ever more rarely, then acknowledges it
/// - atomic: once
/// - leased: once
async fn a_copy_at_another_worker_is_held_until_the_first_has_ended<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (script, go_on) = waiting();
    let store = cell.interfered(|_, _| Fate::Pass);
    let workers = [(); 2].map(|()| C::charging_by(&bed, store.clone(), &script));
    bed.until_consumed(bed.name(), 2).await;
    bed.order("slow").await;
    bed.order("slow").await;
    script.calls.count("one of the copies runs", 1).await;
    eventually("the other one is looked at again", async || {
        match store.count(Call::Claim) {
            claims if claims >= 3 => Ok(()),
            claims => Err(claims),
        }
    })
    .await;
    // Long enough for a hot loop to show: two workers, two deliveries, and at most eight times is it
    // looked at again, because the wait doubles.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let claims = store.count(Call::Claim);
    assert!(claims <= 12, "{claims} claims in 2 s");
    assert_eq!(script.attempts(), [1]);
    go_on.add_permits(1);

    let mut deliveries = 0;
    let mut kinds = Vec::new();
    for worker in workers {
        worker.settled.count("both workers settle a copy", 1).await;
        kinds.push(worker.settled.entries()[0].kind);
        deliveries += worker.stop().await.deliveries();
    }
    kinds.sort();
    assert_eq!(kinds, [Kind::Executed, Kind::Duplicate]);
    assert_eq!(deliveries, 2, "a held copy stays where it is");
    cell.assert_effects(&script, ["slow"]).await;
    bed.assert_nothing_stuck().await;
}

/// A copy comes while the same worker is processing the first.
///
/// - does: lets it wait; acknowledges it as soon as the first is completed; checks the key again if the first has ended
///   otherwise
/// - atomic: once
/// - leased: once
async fn a_copy_at_the_same_worker_is_a_duplicate_as_soon_as_the_first_is_completed<C: Cell>() {
    /// By then the re-check backs off as far as it does: 2.5 s at least.
    const RARELY: usize = 11;
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (script, go_on) = waiting();
    let asked = Journal::default();
    let journal = asked.clone();
    let store = cell.interfered(move |call, _| {
        journal.write((call, Instant::now()));
        Fate::Pass
    });
    let worker = C::charging_by(&bed, store, &script);
    bed.order("slow").await;
    bed.order("slow").await;
    let claims = |asked: &[(Call, Instant)]| -> Vec<Instant> {
        let claims = asked.iter().filter(|(call, _)| *call == Call::Claim);
        claims.map(|(_, at)| *at).collect()
    };
    let rarely = |asked: &[_]| claims(asked).len() >= RARELY;
    asked.until("the copy is looked at rarely", rarely).await;
    go_on.add_permits(1);
    worker.ended(Kind::Executed, 1).await;
    // The store may take its time to complete the first, and the copy is looked at meanwhile.
    let completed = Instant::now();
    worker.ended(Kind::Duplicate, 1).await;
    let asked = asked.entries();
    let mut claims = claims(&asked).into_iter();
    assert!(
        claims.all(|claim| claim <= completed),
        "it was looked at, not told: {asked:?}"
    );

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    cell.assert_effects(&script, ["slow"]).await;
    bed.assert_nothing_stuck().await;
}

/// Copies wait, and other messages are behind them.
///
/// - does: handles the others meanwhile
/// - atomic: once each
/// - leased: once each
async fn held_copies_do_not_stop_the_messages_behind_them<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (script, go_on) = waiting();
    let worker = cell.worker(&script);
    let queue = bed.queue().prefetch(6).concurrency(2);
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    for id in ["slow", "slow", "slow", "b", "c", "d"] {
        bed.order(id).await;
    }

    worker.ended(Kind::Executed, 3).await;
    go_on.add_permits(1);
    worker.ended(Kind::Duplicate, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 4), (Kind::Duplicate, 2)]);
    cell.assert_effects(&script, ["slow", "b", "c", "d"]).await;
    bed.assert_nothing_stuck().await;
}

/// More copies come than may wait in the worker, and there is no ladder.
///
/// - does: returns one to its queue after a second; never in a hot loop
/// - atomic: once
/// - leased: once
async fn a_copy_over_the_cap_goes_back_to_its_queue_and_is_no_hot_loop<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (script, go_on) = waiting();
    let worker = cell.worker(&script);
    // Room for the one that runs and one more that runs, none for a held one.
    let queue = bed.queue().prefetch(2).max_waiting(0).local_retries();
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    bed.order("slow").await;
    script.calls.count("the first copy runs", 1).await;
    let sent = Instant::now();
    bed.order("slow").await;
    worker.ended(Kind::Conflict, 2).await;
    let returned = worker.settled.entries();
    assert!(returned.iter().all(|ended| ended.kind == Kind::Conflict));
    // The first waits half a second at least, those after it at least a second each.
    let most = 1 + sent.elapsed().as_secs();
    assert!(returned.len() as u64 <= most, "a hot loop: {returned:?}");
    go_on.add_permits(1);

    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    let conflicts = balance.of(Kind::Conflict);
    assert_balance(
        &balance,
        [
            (Kind::Executed, 1),
            (Kind::Duplicate, 1),
            (Kind::Conflict, conflicts),
        ],
    );
    assert_eq!(script.attempts(), [1]);
    cell.assert_effects(&script, ["slow"]).await;
    bed.assert_nothing_stuck().await;
}

/// A copy is told that its key is held, and hears of it when the first has ended in its process; none may wait there.
///
/// - does: acknowledges it as a duplicate, at once
/// - leased: once
/// - settled by: `duplicates::a_copy_over_the_cap_goes_back_to_its_queue_and_is_no_hot_loop`
#[tokio::test]
async fn a_copy_over_the_cap_whose_first_has_ended_by_then_is_a_duplicate() {
    let (bed, (script, go_on)) = (Bed::new().await, waiting());
    let late = Fate::AnswerAfter(Duration::from_secs(1));
    let store = Interfered::new(MemoryStore::new(), move |call, number| match call {
        Call::Claim if number == 2 => late,
        _ => Fate::Pass,
    });
    let worker = Worker::builder(store.clone()).state(script.clone());
    let queue = bed.queue().prefetch(2).max_waiting(0).local_retries();
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.order("slow").await;
    script.calls.count("the first copy runs", 1).await;
    bed.order("slow").await;
    eventually("the copy asks", async || match store.count(Call::Claim) {
        2 => Ok(()),
        claims => Err(format!("{claims} claims")),
    })
    .await;
    go_on.add_permits(1);

    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    script.assert_effects(["slow"]);
    bed.assert_nothing_stuck().await;
}

/// Many copies at two workers on one store.
///
/// - does: runs one of each
/// - atomic: once
/// - leased: once
async fn many_copies_at_two_workers_are_charged_once_each<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let workers = [(); 2].map(|()| cell.charging(&bed, &script));
    let ids: Vec<_> = (0..40).map(|number| format!("o-{number}")).collect();
    let mut copies: Vec<_> = ids.iter().flat_map(|id| [id; 3]).collect();
    fastrand::shuffle(&mut copies);
    for id in copies {
        bed.order(id).await;
    }

    bed.until_settled().await;
    let mut settled = 0;
    for worker in workers {
        let balance = worker.stop().await;
        settled += balance.of(Kind::Executed) + balance.of(Kind::Duplicate);
        assert_eq!(balance.of(Kind::Failed), 0, "{balance}");
    }
    assert_eq!(settled, 120);
    cell.assert_effects(&script, ids).await;
    bed.assert_nothing_stuck().await;
}

on_each_store! {
    many_copies_at_two_workers_are_charged_once_each,
    a_copy_that_comes_later_is_acknowledged_without_running,
    a_copy_of_what_is_done_is_dead_lettered_if_the_policy_says_so,
    a_copy_of_what_is_being_handled_is_dropped_if_the_policy_says_so,
    a_copy_of_what_is_being_handled_is_dead_lettered_if_the_policy_says_so,
    a_copy_of_what_is_being_handled_is_given_back_if_the_policy_says_so,
    a_message_is_not_dropped_because_of_its_own_lease,
    copies_that_somebody_asks_for_are_not_dead_lettered,
    what_its_handler_finds_done_is_a_duplicate_and_so_are_its_copies,
    many_copies_in_any_order_are_executed_once_each,
    a_bare_message_of_a_foreign_client_sent_twice_is_executed_once,
    a_copy_that_comes_after_the_retention_runs_again,
    the_same_key_under_one_scope_is_one_unit_of_work_on_two_queues,
    a_copy_at_another_worker_is_held_until_the_first_has_ended,
    a_copy_at_the_same_worker_is_a_duplicate_as_soon_as_the_first_is_completed,
    held_copies_do_not_stop_the_messages_behind_them,
    a_copy_over_the_cap_goes_back_to_its_queue_and_is_no_hot_loop,
}

on_further_stores! {
    a_copy_that_comes_later_is_acknowledged_without_running,
    many_copies_in_any_order_are_executed_once_each,
    many_copies_at_two_workers_are_charged_once_each,
    a_copy_that_comes_after_the_retention_runs_again,
    a_copy_at_another_worker_is_held_until_the_first_has_ended,
}
