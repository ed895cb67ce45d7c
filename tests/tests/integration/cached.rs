//! A cache of completed keys in front of a store, and a record that cannot be read.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use idem_amqp::{
    MemoryStore, PostgresStore, RedisStore, SqliteStore, Worker,
    executor::{ExecutionKind as Kind, RunsOn},
    handler::Handler,
    sqlx::{Connection as _, SqliteConnection, query},
    stores::{Cached, SharedCache},
};
use idem_servers::{Redis, redis::NoWrites};
use idem_tests::{
    bed::Bed,
    cell::{Charging, charge_in_postgres},
    interfered::{Call, Interfered},
    journal::eventually,
    ledger::Ledger,
    running::{Running, assert_balance},
    script::{Script, charge},
    servers::{crash, hang, off_thread},
    store_at::Product,
};

use super::fail_open::failing_open;

/// A copy comes soon after the first, and the store is cached.
///
/// - does: answers the copy without the store
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_copy_that_comes_soon_is_answered_by_the_cache() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
    let cached = Cached::new(store.clone());
    let script = Script::succeeding();
    let worker = bed.charging(cached.clone(), &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    // Not even a store that is away is in the way.
    away.store(true, SeqCst);
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    assert_eq!(store.count(Call::Claim), 1);
    assert_eq!((cached.stats().lookups(), cached.stats().hits()), (2, 1));
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A store in a file, and a connection behind its back.
async fn in_a_file() -> (tempfile::TempDir, SqliteStore, SqliteConnection) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idem.db");
    let store = SqliteStore::connect(&file).await.unwrap();
    let url = format!("sqlite:{}", file.display());
    let connection = SqliteConnection::connect(&url).await.unwrap();
    (folder, store, connection)
}

/// An operator forgets a key that is cached.
///
/// - does: runs the message again when the cache has forgotten the key, too
/// - atomic: runs again
/// - leased: runs again
#[tokio::test]
async fn a_key_that_an_operator_forgets_runs_again_when_the_cache_has_forgotten_it_too() {
    let bed = Bed::new().await;
    let (_folder, store, mut operator) = in_a_file().await;
    // Longer than a busy machine may stall a process: the first copy comes before it is over.
    let longest = Duration::from_secs(12);
    let cached = Cached::builder(store).longest(longest).build();
    let script = Script::succeeding();
    let worker = bed.charging(cached, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let forget = query("DELETE FROM idem_records").execute(&mut operator);
    assert_eq!(forget.await.unwrap().rows_affected(), 1);
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    tokio::time::sleep(longest).await;
    bed.order("a").await;
    worker.ended(Kind::Executed, 2).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    script.assert_effects(["a", "a"]);
    bed.assert_nothing_stuck().await;
}

/// Two workers with PostgreSQL for their store, and a Redis of the test's own in front of it.
struct Tiers {
    bed: Bed,
    script: Script,
    ledger: Ledger,
    redis: Arc<Redis>,
    stores: [Cached<PostgresStore>; 2],
}

impl Tiers {
    async fn start() -> Self {
        Self::behind(Redis::start, waiting_for_a_moment).await
    }

    async fn behind(
        redis: fn() -> idem_servers::Result<Redis>,
        cache: fn(&Redis) -> SharedCache,
    ) -> Self {
        let redis = Arc::new(off_thread(redis).await);
        let ledger = Ledger::on(Product::Postgres).await;
        let cached = async || {
            let second = ledger.store().open_postgres().await;
            Cached::builder(second)
                .shared(cache(&redis))
                .longest(Duration::MAX)
                .build()
        };
        Self {
            bed: Bed::new().await,
            script: Script::succeeding(),
            stores: [cached().await, cached().await],
            redis,
            ledger,
        }
    }

    fn worker<H>(&self, number: usize) -> Running
    where
        H: Handler<Script, Mode: RunsOn<Cached<PostgresStore>>>,
    {
        let worker = Worker::builder(self.stores[number].clone()).state(self.script.clone());
        self.bed.start(worker.consume::<H>(self.bed.queue()))
    }

    /// How often each order was charged.
    async fn charges<H: Charging>(&self) -> BTreeMap<String, usize> {
        let ids: Vec<_> = if H::COMMITS {
            let charges = self.ledger.charges().await;
            charges.into_iter().map(|charge| charge.order_id).collect()
        } else {
            let calls = self.script.effects.entries();
            calls.into_iter().map(|call| call.id).collect()
        };
        ids.into_iter().fold(BTreeMap::new(), |mut charges, id| {
            *charges.entry(id).or_default() += 1;
            charges
        })
    }

    fn hits(&self) -> u64 {
        self.stores.iter().map(|store| store.stats().hits()).sum()
    }

    async fn until_redis_knows(&self, keys: usize) {
        eventually("Redis knows what is completed", async || {
            let redis = Arc::clone(&self.redis);
            let size = off_thread(move || redis.ask(["DBSIZE"])).await;
            (size.trim() == keys.to_string()).then_some(()).ok_or(size)
        })
        .await;
    }

    /// Each order comes three times, while something happens to Redis again and again. All is charged once.
    async fn withstand<H>(self, trouble: impl AsyncFn(&Arc<Redis>))
    where
        H: Charging + Handler<Script, Mode: RunsOn<Cached<PostgresStore>>>,
    {
        const ORDERS: usize = 60;
        let workers = [self.worker::<H>(0), self.worker::<H>(1)];
        for round in 0..3 {
            for number in 0..ORDERS {
                // What runs, is completed and comes again at the time is among them.
                if number == 20 || number == 40 {
                    trouble(&self.redis).await;
                }
                self.bed
                    .order(&format!("o-{}", (number + 7 * round) % ORDERS))
                    .await;
            }
        }
        self.bed.until_settled().await;
        let mut executed = 0;
        let mut duplicates = 0;
        for worker in workers {
            let balance = worker.stop().await;
            executed += balance.of(Kind::Executed);
            duplicates += balance.of(Kind::Duplicate);
        }
        assert_eq!((executed, duplicates), (60, 120));
        let charges = self.charges::<H>().await;
        assert_eq!(charges.len(), ORDERS, "lost");
        assert!(
            charges.values().all(|times| *times == 1),
            "doubled: {charges:?}"
        );
        self.bed.assert_nothing_stuck().await;
    }
}

/// For tests in which it does not matter whether Redis answers in time.
fn waiting_for_a_moment(redis: &Redis) -> SharedCache {
    let cache = RedisStore::builder(&redis.url()).cache("orders").unwrap();
    cache.within(Duration::from_millis(250))
}

/// For tests in which Redis has to answer. It waits longer than a busy machine may stall a process: a Redis that does
/// not answer in time is told nothing for a second.
fn waiting_for_long(redis: &Redis) -> SharedCache {
    const LONG: Duration = Duration::from_secs(10);
    let store = RedisStore::builder(&redis.url());
    let store = store.connect_timeout(LONG).response_timeout(LONG);
    store.cache("orders").unwrap().within(LONG)
}

async fn killed(redis: &Arc<Redis>) {
    crash(redis, Duration::from_millis(300)).await;
}

async fn hangs(redis: &Arc<Redis>) {
    hang(redis, Duration::from_secs(1)).await;
}

async fn emptied(redis: &Arc<Redis>) {
    let redis = Arc::clone(redis);
    off_thread(move || redis.ask(["FLUSHALL"])).await;
}

/// Each call ends one reason to take no writes, and begins the next one.
fn refuses_in_turn() -> impl AsyncFn(&Arc<Redis>) {
    let calls = AtomicUsize::new(0);
    async move |redis| {
        let call = calls.fetch_add(1, SeqCst);
        let redis = Arc::clone(redis);
        off_thread(move || {
            let reason = |number: usize| NoWrites::ALL.get(number).copied();
            if let Some(last) = call.checked_sub(1).and_then(reason) {
                redis.take_writes(last)?;
            }
            reason(call).map_or(Ok(()), |next| redis.refuse_writes(next))
        })
        .await;
    }
}

async fn worker_without_its_first_tier<H>()
where
    H: Charging + Handler<Script, Mode: RunsOn<Cached<PostgresStore>>>,
{
    let tiers = Tiers::start().await;
    let redis = Arc::clone(&tiers.redis);
    off_thread(move || redis.kill()).await;
    let worker = tiers.worker::<H>(0);
    for _ in 0..3 {
        tiers.bed.order("a").await;
    }
    worker.ended(Kind::Duplicate, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 2)]);
    assert_eq!(tiers.charges::<H>().await.len(), 1);
    tiers.bed.assert_nothing_stuck().await;
}

async fn copy_at_another_worker<H>()
where
    H: Charging + Handler<Script, Mode: RunsOn<Cached<PostgresStore>>>,
{
    let tiers = Tiers::behind(Redis::start, waiting_for_long).await;
    // The first one only connects.
    for id in ["z", "a"] {
        tiers.bed.order(id).await;
    }
    let worker = tiers.worker::<H>(0);
    worker.ended(Kind::Executed, 2).await;
    tiers.until_redis_knows(2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    let worker = tiers.worker::<H>(1);
    // One that Redis does not answer in time is answered by PostgreSQL, which is then asked for a while.
    let copies = Cell::new(0);
    eventually("Redis answers a copy", async || {
        tiers.bed.order("a").await;
        copies.update(|copies| copies + 1);
        worker.ended(Kind::Duplicate, copies.get()).await;
        (tiers.hits() > 0).then_some(()).ok_or(copies.get())
    })
    .await;
    let copies = copies.get() as u64;
    assert_balance(&worker.stop().await, [(Kind::Duplicate, copies)]);
    assert_eq!(tiers.charges::<H>().await.len(), 2);
    tiers.bed.assert_nothing_stuck().await;
}

/// A copy comes to another worker, and Redis stands in front of PostgreSQL.
///
/// - does: answers the copy from Redis
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_copy_at_another_worker_is_answered_by_what_stands_in_front_of_postgres() {
    copy_at_another_worker::<charge>().await;
}

/// Shares the promise of `cached::a_copy_at_another_worker_is_answered_by_what_stands_in_front_of_postgres`.
#[tokio::test]
async fn a_copy_at_another_atomic_worker_is_answered_by_what_stands_in_front_of_postgres() {
    copy_at_another_worker::<charge_in_postgres>().await;
}

/// Redis stands in front of PostgreSQL, and is killed and started again, empty, while messages and copies of them come.
///
/// - does: asks PostgreSQL
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn what_stands_in_front_of_postgres_and_is_killed_loses_and_doubles_nothing() {
    Tiers::start().await.withstand::<charge>(killed).await;
}

/// Shares the promise of `cached::what_stands_in_front_of_postgres_and_is_killed_loses_and_doubles_nothing`.
#[tokio::test]
async fn what_stands_in_front_of_postgres_and_is_killed_loses_and_doubles_nothing_of_atomic_workers()
 {
    Tiers::start()
        .await
        .withstand::<charge_in_postgres>(killed)
        .await;
}

/// Redis stands in front of PostgreSQL, and hangs while messages and copies of them come.
///
/// - does: waits for it for a moment, once a second, and asks PostgreSQL
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn what_stands_in_front_of_postgres_and_hangs_loses_and_doubles_nothing() {
    Tiers::start().await.withstand::<charge>(hangs).await;
}

/// Shares the promise of `cached::what_stands_in_front_of_postgres_and_hangs_loses_and_doubles_nothing`.
#[tokio::test]
async fn what_stands_in_front_of_postgres_and_hangs_loses_and_doubles_nothing_of_atomic_workers() {
    Tiers::start()
        .await
        .withstand::<charge_in_postgres>(hangs)
        .await;
}

/// Redis stands in front of PostgreSQL, and is emptied while messages and copies of them come.
///
/// - does: asks PostgreSQL
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn what_stands_in_front_of_postgres_and_is_emptied_loses_and_doubles_nothing() {
    Tiers::start().await.withstand::<charge>(emptied).await;
}

/// Shares the promise of `cached::what_stands_in_front_of_postgres_and_is_emptied_loses_and_doubles_nothing`.
#[tokio::test]
async fn what_stands_in_front_of_postgres_and_is_emptied_loses_and_doubles_nothing_of_atomic_workers()
 {
    Tiers::start()
        .await
        .withstand::<charge_in_postgres>(emptied)
        .await;
}

/// Redis stands in front of PostgreSQL, and takes no writes while messages and copies of them come: for each reason
/// that there is.
///
/// - does: asks PostgreSQL
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn what_stands_in_front_of_postgres_and_takes_no_writes_loses_and_doubles_nothing() {
    let tiers = Tiers::behind(Redis::start_to_refuse, waiting_for_a_moment).await;
    tiers.withstand::<charge>(refuses_in_turn()).await;
}

/// Shares the promise of `cached::what_stands_in_front_of_postgres_and_takes_no_writes_loses_and_doubles_nothing`.
#[tokio::test]
async fn what_stands_in_front_of_postgres_and_takes_no_writes_loses_and_doubles_nothing_of_atomic_workers()
 {
    let tiers = Tiers::behind(Redis::start_to_refuse, waiting_for_a_moment).await;
    tiers
        .withstand::<charge_in_postgres>(refuses_in_turn())
        .await;
}

/// Redis stands in front of PostgreSQL, and does not answer from the start on.
///
/// - does: starts, and asks PostgreSQL
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_worker_starts_while_what_stands_in_front_of_postgres_is_away() {
    worker_without_its_first_tier::<charge>().await;
}

/// Shares the promise of `cached::a_worker_starts_while_what_stands_in_front_of_postgres_is_away`.
#[tokio::test]
async fn an_atomic_worker_starts_while_what_stands_in_front_of_postgres_is_away() {
    worker_without_its_first_tier::<charge_in_postgres>().await;
}

/// The store's record of a key cannot be read.
///
/// - does: lets the message wait, logs the key as an error, looks again once a minute at most, whatever the policy;
///   mend or delete the record
/// - atomic: not run
/// - leased: not run
#[tokio::test]
async fn a_message_whose_record_cannot_be_read_is_held_and_the_others_go_on() {
    let bed = Bed::new().await;
    let (_folder, store, mut operator) = in_a_file().await;
    let script = Script::succeeding();
    let worker = bed.start(failing_open(&bed, store.clone(), &script));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let garble = query("UPDATE idem_records SET state = 'garbled'").execute(&mut operator);
    assert_eq!(garble.await.unwrap().rows_affected(), 1);
    bed.order("a").await;
    bed.order("b").await;
    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::RecordCorrupt, 1)]);
    bed.until_waiting(1).await;

    // Mended, it is what it was.
    let mend = query("UPDATE idem_records SET state = 'completed'").execute(&mut operator);
    mend.await.unwrap();
    let worker = bed.charging(store, &script);
    worker.ended(Kind::Duplicate, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Duplicate, 1)]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}
