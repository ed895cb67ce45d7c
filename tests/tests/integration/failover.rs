//! A Redis that fails, and whose replica takes its place without its last writes.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use idem_amqp::{FencingToken, RedisStore, Worker, executor::ExecutionKind as Kind, prelude::*};
use idem_servers::{Redis, RedisSentinels};
use idem_tests::{
    bed::Bed,
    journal::{Journal, eventually},
    process::Mode,
    proxy::Proxy,
    running::{Running, assert_balance},
    script::Order,
    servers::off_thread,
    store_at::StoreAt,
};
use tokio::sync::Semaphore;

use crate::load::{Load, assert_none_lost};

/// A primary, its replica, and an address that leads to the one that is in charge.
struct Pair {
    primary: Arc<Redis>,
    replica: Arc<Redis>,
    address: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let primary = Arc::new(off_thread(Redis::start).await);
        let replica = off_thread(Redis::start).await;
        let pair = Self {
            address: Proxy::open(primary.port()).await,
            primary,
            replica: Arc::new(replica),
        };
        pair.follow().await;
        pair
    }

    async fn tell(server: &Arc<Redis>, words: Vec<String>) -> String {
        let server = Arc::clone(server);
        off_thread(move || server.ask(words)).await
    }

    /// Lets the replica follow the primary, and waits until it does.
    async fn follow(&self) {
        let port = self.primary.port().to_string();
        let follow = ["REPLICAOF", "127.0.0.1", &port].map(str::to_owned);
        Self::tell(&self.replica, follow.into()).await;
        eventually("the replica follows", async || {
            let role = Self::tell(&self.replica, vec!["ROLE".into()]).await;
            let follows = role.lines().any(|line| line == "connected");
            if follows { Ok(()) } else { Err(role) }
        })
        .await;
    }

    /// Waits until the replica has all that the primary has written by now.
    async fn catch_up(&self) {
        let written = Self::offset(&self.primary, "master_repl_offset").await;
        eventually("the replica has all of it", async || {
            match Self::offset(&self.replica, "slave_repl_offset").await {
                received if received >= written => Ok(()),
                received => Err(format!("{received} of {written} bytes")),
            }
        })
        .await;
    }

    async fn offset(server: &Arc<Redis>, name: &str) -> u64 {
        let told = Self::tell(server, ["INFO", "replication"].map(str::to_owned).into()).await;
        let mut lines = told.lines().filter_map(|line| line.split_once(':'));
        let offset = lines.find_map(|(field, value)| (field == name).then_some(value));
        offset.expect("it is told").trim().parse().expect("bytes")
    }

    /// The replica is on its own from now on: it lacks what is written later.
    async fn cut_off(&self) {
        let alone = ["REPLICAOF", "NO", "ONE"].map(str::to_owned);
        Self::tell(&self.replica, alone.into()).await;
    }

    /// The primary dies, the replica takes its place.
    async fn fail_over(&self) {
        self.cut_off().await;
        let primary = Arc::clone(&self.primary);
        off_thread(move || primary.kill()).await;
        self.address.turn_to(self.replica.port());
        self.address.cut();
    }

    async fn store(&self) -> RedisStore {
        let at = StoreAt::redis_on(&self.primary);
        at.by(self.address.port()).open_redis().await
    }

    /// A store whose answers wait for the replica.
    async fn careful_store(&self) -> RedisStore {
        let at = StoreAt::redis_on(&self.primary).by(self.address.port());
        let store = RedisStore::builder(&at.url)
            .prefix(&at.prefix)
            .min_replicas(NonZeroUsize::MIN, Duration::from_millis(100));
        store.build().await.unwrap()
    }
}

/// What the handler was called with, and when it may end.
#[derive(Clone)]
struct Desk {
    calls: Journal<(String, FencingToken)>,
    go_on: Arc<Semaphore>,
}

impl Desk {
    fn new() -> Self {
        Self {
            calls: Journal::default(),
            go_on: Arc::new(Semaphore::new(0)),
        }
    }

    fn start(&self, bed: &Bed, store: RedisStore) -> Running {
        let worker = Worker::builder(store).state(self.clone());
        bed.start(worker.consume::<wait>(bed.queue()))
    }

    fn tokens(&self) -> Vec<FencingToken> {
        let calls = self.calls.entries().into_iter();
        calls.map(|(_, token)| token).collect()
    }
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn wait(order: Order, State(desk): State<Desk>, token: FencingToken) -> Result<(), Failed> {
    desk.calls.write((order.id, token));
    desk.go_on.acquire().await?.forget();
    Ok(())
}

/// The replica had the completion.
///
/// - does: acknowledges a copy
/// - leased: once
#[tokio::test]
async fn what_a_replica_had_before_a_fail_over_is_remembered() {
    let (bed, pair, desk) = (Bed::new().await, Pair::start().await, Desk::new());
    let worker = desk.start(&bed, pair.store().await);
    desk.go_on.add_permits(1);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    pair.catch_up().await;
    pair.fail_over().await;
    bed.order("a").await;

    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The replica lacks the completion, and a copy comes.
///
/// - does: no longer knows the key: runs the copy, under a greater fencing token
/// - leased: runs again
#[tokio::test]
async fn a_message_whose_completion_a_fail_over_lost_runs_again_under_a_greater_token() {
    let (bed, pair, desk) = (Bed::new().await, Pair::start().await, Desk::new());
    let worker = desk.start(&bed, pair.store().await);
    desk.go_on.add_permits(2);
    pair.cut_off().await;
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    pair.fail_over().await;
    bed.order("a").await;

    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    let tokens = desk.tokens();
    assert!(tokens.is_sorted() && tokens[0] != tokens[1], "{tokens:?}");
    bed.assert_nothing_stuck().await;
}

/// The replica lacks the claim of a handler that works.
///
/// - does: refuses its completion, acknowledges nothing, runs the message again under a greater fencing token
/// - leased: effect may be twice, and the next attempt is not told
#[tokio::test]
async fn a_message_whose_claim_a_fail_over_lost_is_not_acknowledged_and_runs_again() {
    let (bed, pair, desk) = (Bed::new().await, Pair::start().await, Desk::new());
    let worker = desk.start(&bed, pair.store().await);
    pair.cut_off().await;
    bed.order("a").await;
    desk.calls.count("the handler runs", 1).await;
    pair.fail_over().await;
    desk.go_on.add_permits(1);
    worker.ended(Kind::LeaseLost, 1).await;
    desk.go_on.add_permits(1);

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::LeaseLost, 1)]);
    let tokens = desk.tokens();
    assert!(tokens.is_sorted() && tokens[0] != tokens[1], "{tokens:?}");
    bed.assert_nothing_stuck().await;
}

/// The store asks for a minimum of replicas, and one that had confirmed takes over.
///
/// - does: acknowledges a copy
/// - leased: once
#[tokio::test]
async fn with_a_minimum_of_replicas_a_fail_over_forgets_no_completion_that_was_answered() {
    let (bed, pair, desk) = (Bed::new().await, Pair::start().await, Desk::new());
    let worker = desk.start(&bed, pair.careful_store().await);
    desk.go_on.add_permits(1);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    // Nothing waits for the replica here: the worker has.
    pair.fail_over().await;
    bed.order("a").await;
    // The successor answers once it has a replica itself.
    let (primary, replica) = (Arc::clone(&pair.replica), Arc::clone(&pair.primary));
    off_thread(move || replica.restart()).await;
    let back = Pair {
        primary,
        replica: pair.primary,
        address: pair.address,
    };
    back.follow().await;

    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The store asks for a minimum of replicas, and there are fewer before the claim.
///
/// - does: runs nothing, settles nothing, goes on by itself
/// - leased: once
#[tokio::test]
async fn with_a_minimum_of_replicas_nothing_runs_while_there_are_too_few() {
    let (bed, pair, desk) = (Bed::new().await, Pair::start().await, Desk::new());
    let store = pair.careful_store().await;
    pair.cut_off().await;
    let worker = desk.start(&bed, store);
    desk.go_on.add_permits(1);
    bed.order("a").await;
    bed.until_consumed(bed.name(), 1).await;
    // Several claims' time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(desk.calls.entries().is_empty(), "it ran unprotected");
    assert!(
        worker.settled.entries().is_empty(),
        "settled without a claim"
    );
    pair.follow().await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(desk.calls.entries().len(), 1);
    bed.assert_nothing_stuck().await;
}

/// The store asks for a minimum of replicas, and there are fewer before the completion.
///
/// - does: keeps the message and repeats the completion
/// - leased: once
#[tokio::test]
async fn with_a_minimum_of_replicas_work_is_not_acknowledged_while_there_are_too_few() {
    let (bed, pair, desk) = (Bed::new().await, Pair::start().await, Desk::new());
    let worker = desk.start(&bed, pair.careful_store().await);
    bed.order("a").await;
    desk.calls.count("the handler runs", 1).await;
    pair.cut_off().await;
    desk.go_on.add_permits(1);
    // Several completions' time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        worker.settled.entries().is_empty(),
        "settled without a completion"
    );
    pair.follow().await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(desk.calls.entries().len(), 1);
    bed.assert_nothing_stuck().await;
}

/// The primary is killed under load, and sentinels let its replica take its place.
///
/// - does: asks the sentinels for the primary again, and goes on by itself
/// - leased: none lost; what the replica lacked may be twice
#[tokio::test]
async fn a_redis_whose_place_sentinels_give_to_its_replica_under_load_loses_nothing() {
    let sentinels = Arc::new(off_thread(RedisSentinels::start).await);
    let load = Load::of(&StoreAt::redis_by(&sentinels), Mode::Leased).await;
    let charges = load.charges(async |[worker, _], _| {
        worker.ended("executed", 10).await;
        let sentinels = Arc::clone(&sentinels);
        off_thread(move || {
            let [primary, replica] = sentinels.servers();
            primary.kill()?;
            sentinels.wait_until_primary(replica)
        })
        .await;
    });
    assert_none_lost(&charges.await);
}
