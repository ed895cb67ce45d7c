//! What comes between a numbered message and its completion: every number's effect once, and a mark that
//! passes all of them.

use std::{ops::Range, sync::Arc};

use futures_util::future::join_all;
use idem_amqp::{
    Failed, MemoryStore, Publication, Publisher, RedisStore, Worker,
    executor::ExecutionKind as Kind, sequence::SequencePublisher, store::Purge,
    worker::ProblemKind,
};
use idem_servers::{Redis, postgres, redis};
use idem_tests::{
    bed::Bed,
    interfered::{Call, Fate, Interfered},
    journal::eventually,
    laddered::laddered,
    ledger::Ledger,
    process::{Crash, Keys, Mode, Process, Settings},
    proxy::Proxy,
    readings::{send_stamped, store_narrowly},
    running::Running,
    script::{Order, Script},
    servers::off_thread,
    store_at::{Product, StoreAt},
};
use nix::sys::signal::Signal;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// How many messages a stream has, several times the window; and how many come after the fault, a window
/// or more: they run only if the mark has passed all before them.
const STREAM: Range<u64> = 0..200;
const AFTER: Range<u64> = 200..260;

async fn publish(publisher: &SequencePublisher, bed: &Bed, numbers: Range<u64>) {
    let messages =
        numbers.map(|number| Publication::json(bed.name(), &Order::new(&number.to_string())));
    let messages: Vec<_> = messages.collect();
    let calls = messages.iter().map(|message| publisher.publish(message));
    for published in join_all(calls).await {
        published.unwrap();
    }
}

async fn until_charged(ledger: &Ledger, orders: u64) {
    let orders = usize::try_from(orders).unwrap();
    eventually("every order is charged", async || {
        match ledger.charges_per_order().await.len() {
            charged if charged == orders => Ok(()),
            charged => Err(charged),
        }
    })
    .await;
}

/// A worker's process dies in the middle of a stream, of itself or by a signal, and another one comes.
async fn killed_in_a_stream(product: Product, mode: Mode, prefetch: u16, crash: Option<Crash>) {
    let bed = Bed::with_vhost().await;
    let ledger = Ledger::on(product).await;
    let next = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        settings.prefetch = prefetch;
        settings.keys = Keys::Numbers;
        settings.max_attempts = 20;
        settings.work_ms = 10;
        settings.rungs_ms = Some(vec![200, 500]);
    });
    let dying = next.with(|settings| settings.crash = crash);
    let mut dying = Process::start(LEDGER_WORKER, &dying);
    bed.until_consumed(bed.name(), 1).await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let publisher = publisher.sequence("till-4").unwrap();
    publish(&publisher, &bed, STREAM).await;
    if crash.is_some() {
        dying.died().await;
    } else {
        dying.ended("executed", 60).await;
        dying.signal(Signal::SIGKILL);
        dying.exit().await;
    }
    let next = Process::start(LEDGER_WORKER, &next);
    until_charged(&ledger, STREAM.end).await;
    publish(&publisher, &bed, AFTER).await;
    until_charged(&ledger, AFTER.end).await;
    bed.until_settled().await;
    next.stop().await;
    let charges = ledger.charges_per_order().await;
    let twice: Vec<_> = charges.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    bed.assert_nothing_stuck().await;
}

/// A worker is killed in the middle of a stream.
///
/// - does: goes on with the next worker; the mark passes all numbers
/// - atomic: once each
/// - leased: once each, but for effects that were not completed
#[tokio::test]
async fn a_worker_killed_in_the_middle_of_a_stream_on_postgres_loses_and_doubles_no_number() {
    killed_in_a_stream(Product::Postgres, Mode::Atomic, 8, None).await;
}

/// Shares the promise of
/// `sequence_faults::a_worker_killed_in_the_middle_of_a_stream_on_postgres_loses_and_doubles_no_number`.
#[tokio::test]
async fn a_worker_killed_after_a_commit_in_a_stream_on_sqlite_loses_and_doubles_no_number() {
    let crash = Some(Crash::AfterCompletion(100));
    killed_in_a_stream(Product::Sqlite, Mode::Atomic, 8, crash).await;
}

/// Shares the promise of
/// `sequence_faults::a_worker_killed_in_the_middle_of_a_stream_on_postgres_loses_and_doubles_no_number`.
#[tokio::test]
async fn a_worker_killed_after_a_completion_in_a_stream_on_redis_loses_and_doubles_no_number() {
    // One at a time: an effect of another one, not completed yet, would be repeated.
    let crash = Some(Crash::AfterCompletion(100));
    killed_in_a_stream(Product::Redis, Mode::Leased, 1, crash).await;
}

/// Shares the promise of
/// `sequence_faults::a_worker_killed_in_the_middle_of_a_stream_on_postgres_loses_and_doubles_no_number`.
#[tokio::test]
async fn a_worker_killed_after_a_claim_in_a_stream_on_redis_loses_and_doubles_no_number() {
    let crash = Some(Crash::AfterClaim(100));
    killed_in_a_stream(Product::Redis, Mode::Leased, 1, crash).await;
}

fn storing<S: Purge + Clone>(bed: &Bed, store: S, script: &Script) -> Running {
    let worker = Worker::builder(store).state(script.clone());
    bed.start(worker.consume::<store_narrowly>(laddered(bed.queue())))
}

/// All had their effect, once each; and so have those that come after them.
async fn assert_all_passed(bed: Bed, worker: Running, script: &Script) {
    let count = |end: u64| usize::try_from(end).unwrap();
    script
        .effects
        .count("all take effect", count(STREAM.end))
        .await;
    send_stamped(&bed, AFTER).await;
    script
        .effects
        .count("the mark has passed them", count(AFTER.end))
        .await;
    bed.until_settled().await;
    let balance = worker.stop().await;
    assert_eq!(balance.of(Kind::Late), 0, "{balance}");
    script.assert_effects((0..AFTER.end).map(|number| number.to_string()));
    bed.assert_nothing_stuck().await;
}

/// The way to the store is cut in the middle of a stream, and heals.
async fn cut_and_healed<S: Purge + Clone>(store: S, mut proxy: Proxy) {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let worker = storing(&bed, store, &script);
    bed.until_consumed(bed.name(), 1).await;
    send_stamped(&bed, 0..STREAM.end / 2).await;
    script.effects.count("some take effect", 20).await;
    proxy.close().await;
    proxy.cut();
    send_stamped(&bed, STREAM.end / 2..STREAM.end).await;
    worker
        .until("it misses the store", |health| {
            let problems = health.problems();
            let mut kinds = problems.iter().map(|problem| &problem.kind);
            kinds.any(|kind| *kind == ProblemKind::StoreUnavailable)
        })
        .await;
    proxy.listen().await;
    assert_all_passed(bed, worker, &script).await;
}

/// The store is out of reach in the middle of a stream, and comes back.
///
/// - does: waits for it; the mark passes all numbers
/// - leased: once each
#[tokio::test]
async fn a_postgres_that_is_out_of_reach_in_a_stream_delays_it_and_no_number_is_lost_or_doubled() {
    let at = StoreAt::postgres().await;
    let proxy = Proxy::open(off_thread(postgres::shared).await.port()).await;
    let store = at.by(proxy.port()).open_postgres().await;
    cut_and_healed(store, proxy).await;
}

/// Shares the promise of
/// `sequence_faults::a_postgres_that_is_out_of_reach_in_a_stream_delays_it_and_no_number_is_lost_or_doubled`.
#[tokio::test]
async fn a_redis_that_is_out_of_reach_in_a_stream_delays_it_and_no_number_is_lost_or_doubled() {
    let at = StoreAt::redis().await;
    let proxy = Proxy::open(off_thread(redis::shared).await.port()).await;
    let store = at.by(proxy.port()).open_redis().await;
    cut_and_healed(store, proxy).await;
}

/// Redis refuses a command in the middle of a stream (its user's rights were changed), and the mark needs that command.
///
/// - does: waits for the store; forgets no number before a mark that has passed it is saved
/// - leased: once each
#[tokio::test]
async fn a_redis_that_refuses_a_command_in_a_stream_delays_it_and_no_number_is_lost_or_doubled() {
    let rules = [("user", "shop on >hush ~* +@all")];
    let server = Arc::new(off_thread(move || Redis::start_with(&rules)).await);
    let rule = async |rule: &'static str| {
        let server = Arc::clone(&server);
        off_thread(move || server.ask(["ACL", "SETUSER", "shop", rule])).await
    };
    let url = server.url().replace("//", "//shop:hush@");
    let store = RedisStore::connect(&url).await.unwrap();
    let bed = Bed::with_vhost().await;
    let script = Script::new(async |call| match &*call.id {
        "2" => Err(Failed::rejected("no such customer")),
        _ => Ok(()),
    });
    let worker = storing(&bed, store, &script);
    bed.until_consumed(bed.name(), 1).await;
    rule("-sadd").await;
    send_stamped(&bed, 0..20).await;
    worker
        .until("it misses the store", |health| {
            let problems = health.problems();
            let mut kinds = problems.iter().map(|problem| &problem.kind);
            kinds.any(|kind| *kind == ProblemKind::StoreUnavailable)
        })
        .await;
    rule("+sadd").await;
    script.effects.count("all others take effect", 19).await;
    send_stamped(&bed, (0..20).filter(|number| *number != 2)).await;
    worker.ended(Kind::Duplicate, 19).await;

    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    worker.stop().await;
    let done = (0..20).filter(|number| *number != 2);
    script.assert_effects(done.map(|number| number.to_string()));
    bed.assert_nothing_stuck().await;
}

/// Of every seventh completion the answer is lost: it is repeated, perhaps when the mark has passed.
async fn lost_answers<S: Purge + Clone>(store: S) {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let store = Interfered::new(store, |call, number| match call {
        Call::Complete if number % 7 == 0 => Fate::LoseAnswer,
        _ => Fate::Pass,
    });
    let worker = storing(&bed, store, &script);
    bed.until_consumed(bed.name(), 1).await;
    send_stamped(&bed, STREAM).await;
    assert_all_passed(bed, worker, &script).await;
}

/// The answers to completions are lost, and the mark may pass their numbers before they are repeated.
///
/// - does: repeats them, runs nothing again; the mark passes all numbers
/// - leased: once each
#[tokio::test]
async fn completions_whose_answers_are_lost_in_a_stream_double_no_number_in_memory() {
    lost_answers(MemoryStore::new()).await;
}

/// Shares the promise of `sequence_faults::completions_whose_answers_are_lost_in_a_stream_double_no_number_in_memory`.
#[tokio::test]
async fn completions_whose_answers_are_lost_in_a_stream_double_no_number_in_postgres() {
    lost_answers(StoreAt::postgres().await.open_postgres().await).await;
}

/// Shares the promise of `sequence_faults::completions_whose_answers_are_lost_in_a_stream_double_no_number_in_memory`.
#[tokio::test]
async fn completions_whose_answers_are_lost_in_a_stream_double_no_number_in_redis() {
    lost_answers(StoreAt::redis().await.open_redis().await).await;
}
