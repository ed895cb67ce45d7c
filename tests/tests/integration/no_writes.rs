//! Stores that are there and take no writes, and stores that are away, with real servers.

use std::{fmt, sync::Arc};

use idem_amqp::{executor::ExecutionKind as Kind, store::Purge};
use idem_servers::{Postgres, Private, Redis, Server, redis::NoWrites};
use idem_tests::{
    bed::Bed,
    interfered::{Call, Fate, Interfered},
    journal::eventually,
    running::assert_balance,
    script::Script,
    servers::off_thread,
    store_at::StoreAt,
};

use crate::fail_open::{failing_open, reports};

/// Does something with a server, away from the test's thread.
async fn with<S, T>(
    server: &Arc<Private<S>>,
    act: impl FnOnce(&Private<S>) -> idem_servers::Result<T> + Send + 'static,
) where
    S: Server + Send + Sync + 'static,
    T: Send + 'static,
{
    let server = Arc::clone(server);
    off_thread(move || act(&server)).await;
}

async fn refuse(server: &Arc<Redis>, why: NoWrites) {
    with(server, move |server| server.refuse_writes(why)).await;
}

async fn take(server: &Arc<Redis>, why: NoWrites) {
    with(server, move |server| server.take_writes(why)).await;
}

/// What managed servers do when their disk is full: every transaction is read-only.
async fn read_only(server: &Arc<Postgres>, value: &'static str) {
    with(server, move |server| {
        server.set("default_transaction_read_only", value)
    })
    .await;
}

/// An order is at work when the store goes away, another one comes meanwhile. Both wait.
async fn orders_wait<S: Purge + Clone + fmt::Debug>(
    store: S,
    away: impl AsyncFnOnce(),
    back: impl AsyncFnOnce(),
) {
    let bed = Bed::new().await;
    let store = Interfered::new(store, |_, _| Fate::Pass);
    let (script, gate) = Script::waiting(|call| call.id == "working");
    let worker = bed.charging(store.clone(), &script);
    bed.order("working").await;
    script.calls.count("it is at work", 1).await;
    away().await;
    gate.add_permits(1);
    bed.order("waiting").await;
    eventually("both are asked for again and again", async || {
        match (store.count(Call::Claim), store.count(Call::Complete)) {
            (claims, completions) if claims > 4 && completions > 3 => Ok(()),
            few => Err(few),
        }
    })
    .await;
    assert!(worker.settled.entries().is_empty());
    script.assert_effects(["working"]);

    back().await;
    worker.ended(Kind::Executed, 2).await;
    bed.order("working").await;
    bed.order("waiting").await;
    worker.ended(Kind::Duplicate, 2).await;
    let ends = [(Kind::Executed, 2), (Kind::Duplicate, 2)];
    assert_balance(&worker.stop().await, ends);
    assert_eq!(script.attempts(), [1, 1]);
    script.assert_effects(["working", "waiting"]);
    bed.assert_nothing_stuck().await;
}

/// The same at a handler that fails open: both run and are acknowledged, and the store is told.
async fn orders_run<S: Purge + Clone + fmt::Debug>(
    store: S,
    away: impl AsyncFnOnce(),
    back: impl AsyncFnOnce(),
) {
    let bed = Bed::new().await;
    let (script, gate) = Script::waiting(|call| call.id == "working");
    let worker = bed.start(failing_open(&bed, store.clone(), &script));
    bed.order("working").await;
    script.calls.count("it is at work", 1).await;
    away().await;
    gate.add_permits(1);
    worker.ended(Kind::Unprotected, 1).await;
    bed.order("new").await;
    worker.ended(Kind::Unprotected, 2).await;
    for copy in ["working", "new"] {
        bed.order(copy).await;
    }
    worker.ended(Kind::Duplicate, 2).await;
    bed.until_settled().await;

    back().await;
    let balance = worker.stop().await;
    let ends = [(Kind::Unprotected, 2), (Kind::Duplicate, 2)];
    assert_balance(&balance, ends);
    assert_eq!(reports(&balance), (2, 0, 0));
    let other = bed.charging(store, &script);
    for copy in ["working", "new"] {
        bed.order(copy).await;
    }
    other.ended(Kind::Duplicate, 2).await;
    assert_balance(&other.stop().await, [(Kind::Duplicate, 2)]);
    script.assert_effects(["working", "new"]);
    bed.assert_nothing_stuck().await;
}

/// Redis answers, and takes no writes: its memory is full, it cannot save its data, it lacks replicas, it is a replica,
/// or it loads its data.
///
/// - does: settles nothing meanwhile, and goes on by itself; dead-letters nothing
/// - leased: once
#[tokio::test]
async fn while_redis_takes_no_writes_messages_wait() {
    let server = Arc::new(off_thread(Redis::start_to_refuse).await);
    for why in NoWrites::ALL {
        let store = StoreAt::redis_on(&server).open_redis().await;
        let (away, back) = (
            async || refuse(&server, why).await,
            async || take(&server, why).await,
        );
        orders_wait(store, away, back).await;
    }
}

/// Redis answers, and takes no writes; the handler fails open.
///
/// - does: runs its messages, acknowledges them, tells Redis when it takes writes again
/// - leased: once, if nobody else runs it
#[tokio::test]
async fn while_redis_takes_no_writes_a_handler_that_fails_open_runs() {
    let server = Arc::new(off_thread(Redis::start_to_refuse).await);
    for why in NoWrites::ALL {
        let store = StoreAt::redis_on(&server).open_redis().await;
        let (away, back) = (
            async || refuse(&server, why).await,
            async || take(&server, why).await,
        );
        orders_run(store, away, back).await;
    }
}

/// Redis answers, and takes no writes; it knows what is done, and the handler fails open.
///
/// - does: knows the copy for one, as Redis says it
/// - leased: once
#[tokio::test]
async fn what_redis_knows_is_not_run_again_while_it_takes_no_writes() {
    let server = Arc::new(off_thread(Redis::start_to_refuse).await);
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let store = StoreAt::redis_on(&server).open_redis().await;
    let worker = bed.start(failing_open(&bed, store, &script));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    // While it loads it tells nothing.
    let telling = NoWrites::ALL
        .into_iter()
        .filter(|why| *why != NoWrites::Loading);
    for (copies, why) in telling.enumerate() {
        refuse(&server, why).await;
        bed.order("a").await;
        worker.ended(Kind::Duplicate, copies + 1).await;
        take(&server, why).await;
    }
    let ends = [(Kind::Executed, 1), (Kind::Duplicate, 4)];
    assert_balance(&worker.stop().await, ends);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// PostgreSQL makes every transaction read-only, as managed servers do when their disk is full.
///
/// - does: settles nothing meanwhile, and goes on by itself; dead-letters nothing
/// - leased: once
#[tokio::test]
async fn while_postgres_takes_no_writes_messages_wait() {
    let server = Arc::new(off_thread(Postgres::start).await);
    let store = StoreAt::postgres_on(&server).await.open_postgres().await;
    let (away, back) = (
        async || read_only(&server, "on").await,
        async || read_only(&server, "off").await,
    );
    orders_wait(store, away, back).await;
}

/// PostgreSQL makes every transaction read-only, and the handler fails open.
///
/// - does: runs its messages, acknowledges them, tells PostgreSQL when it takes writes again
/// - leased: once, if nobody else runs it
#[tokio::test]
async fn while_postgres_takes_no_writes_a_handler_that_fails_open_runs() {
    let server = Arc::new(off_thread(Postgres::start).await);
    let store = StoreAt::postgres_on(&server).await.open_postgres().await;
    let (away, back) = (
        async || read_only(&server, "on").await,
        async || read_only(&server, "off").await,
    );
    orders_run(store, away, back).await;
}

/// The store's server is killed, and comes back; the handler fails open.
///
/// - does: runs its messages, acknowledges them, tells the server when it is back
/// - leased: once, if nobody else runs it
#[tokio::test]
async fn while_redis_is_dead_a_handler_that_fails_open_runs() {
    let durable = || Redis::start_with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let server = Arc::new(off_thread(durable).await);
    let store = StoreAt::redis_on(&server).open_redis().await;
    dies_and_returns(&server, store).await;
}

/// Shares the promise of `no_writes::while_redis_is_dead_a_handler_that_fails_open_runs`.
#[tokio::test]
async fn while_postgres_is_dead_a_handler_that_fails_open_runs() {
    let server = Arc::new(off_thread(Postgres::start).await);
    let store = StoreAt::postgres_on(&server).await.open_postgres().await;
    dies_and_returns(&server, store).await;
}

async fn dies_and_returns<S, St>(server: &Arc<Private<S>>, store: St)
where
    S: Server + Send + Sync + 'static,
    St: Purge + Clone + fmt::Debug,
{
    let (away, back) = (
        async || with(server, Private::kill).await,
        async || with(server, Private::restart).await,
    );
    orders_run(store, away, back).await;
}

/// The store's server hangs, and goes on; the handler fails open.
///
/// - does: runs its messages, acknowledges them, tells the server when it goes on
/// - leased: once, if nobody else runs it
#[tokio::test]
async fn while_redis_hangs_a_handler_that_fails_open_runs() {
    let server = Arc::new(off_thread(Redis::start).await);
    let store = StoreAt::redis_on(&server).answering_within(500);
    hangs_and_goes_on(&server, store.open_redis().await).await;
}

/// Shares the promise of `no_writes::while_redis_hangs_a_handler_that_fails_open_runs`.
#[tokio::test]
async fn while_postgres_hangs_a_handler_that_fails_open_runs() {
    let server = Arc::new(off_thread(Postgres::start).await);
    let store = StoreAt::postgres_on(&server).await.answering_within(500);
    hangs_and_goes_on(&server, store.open_postgres().await).await;
}

async fn hangs_and_goes_on<S, St>(server: &Arc<Private<S>>, store: St)
where
    S: Server + Send + Sync + 'static,
    St: Purge + Clone + fmt::Debug,
{
    let (away, back) = (
        async || with(server, Private::freeze).await,
        async || with(server, Private::thaw).await,
    );
    orders_run(store, away, back).await;
}
