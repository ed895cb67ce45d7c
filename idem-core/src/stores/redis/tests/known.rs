//! What is known in front of another store, and what is not taken for known.

use super::*;
use crate::{
    message::Fingerprint,
    stores::{
        MemoryStore,
        cached::{
            Cached, SharedCache,
            shared::{KnownKey, Moment, SharedKeys},
        },
        redis::{known::KnownInRedis, link::Timeouts, location::Location, naming::Naming},
    },
};

const SECOND: Duration = Duration::from_secs(1);
/// The machine of the tests is busy.
const PATIENCE: Duration = Duration::from_secs(10);

fn unique() -> String {
    format!("{:x}", u128::from_be_bytes(*Owner::new().as_bytes()))
}

fn keys_on(server: &Node, name: &str) -> KnownInRedis {
    let timeouts = Timeouts {
        connect: PATIENCE,
        response: PATIENCE,
    };
    let location = Location::parse(&server.url()).unwrap();
    KnownInRedis::new(location, timeouts, Naming::new(name).unwrap())
}

fn keys() -> (KnownInRedis, &'static Node, String) {
    let server = idem_servers::redis::shared().unwrap();
    let name = unique();
    (keys_on(server, &name), server, name)
}

fn key() -> Key {
    Key::new("orders", "a").unwrap()
}

fn done(remaining: Duration) -> KnownKey {
    KnownKey {
        outcome: Outcome::new("done"),
        fingerprint: Some(Fingerprint::of(b"content")),
        remaining,
    }
}

async fn now(keys: &KnownInRedis) -> Moment {
    keys.look(&key()).await.unwrap();
    keys.now().unwrap()
}

async fn tell(keys: &KnownInRedis, asked: Moment, longest: Duration) {
    let (key, known) = (key(), done(10 * MINUTE));
    keys.tell(&key, &known, asked, longest).await.unwrap();
}

async fn is_known(keys: &KnownInRedis) -> bool {
    keys.look(&key()).await.unwrap().is_some()
}

#[tokio::test]
async fn what_one_process_has_told_another_one_knows() {
    let (here, server, name) = keys();
    let there = keys_on(server, &name);
    assert!(!is_known(&there).await);
    let asked = now(&here).await;
    tell(&here, asked, MINUTE).await;
    let known = there.look(&key()).await.unwrap().unwrap();
    assert_eq!(known.outcome, Outcome::new("done"));
    assert_eq!(known.fingerprint, Some(Fingerprint::of(b"content")));
    assert!((9 * MINUTE..=10 * MINUTE).contains(&known.remaining));
    assert!(!is_known(&keys_on(server, &unique())).await, "another name");
}

#[tokio::test]
async fn a_key_is_known_for_its_time_and_not_beyond_its_retention() {
    for (longest, known) in [(MINUTE, MINUTE), (Duration::MAX, 10 * MINUTE)] {
        let (keys, server, name) = keys();
        let asked = now(&keys).await;
        tell(&keys, asked, longest).await;
        keys.advance(known.saturating_sub(5 * SECOND));
        assert!(is_known(&keys).await, "{longest:?}");
        keys.advance(5 * SECOND);
        assert!(!is_known(&keys).await, "{longest:?}");
        // It goes by itself.
        let left = server.ask(["PTTL", &format!("{name}:{{orders:a}}~known")]);
        let left: u128 = left.unwrap().trim().parse().unwrap();
        assert!(left > 0 && left <= known.as_millis(), "{left}");
    }
}

#[tokio::test]
async fn what_was_asked_for_before_an_operator_changed_it_is_not_taken_however_late_it_comes() {
    let (keys, ..) = keys();
    let asked = now(&keys).await;
    tell(&keys, asked, MINUTE).await;
    keys.forget(&key()).await.unwrap();
    assert!(!is_known(&keys).await);
    tell(&keys, asked, MINUTE).await;
    assert!(!is_known(&keys).await, "it was asked for before");
    // As if the change were no longer kept in mind.
    let (later, ..) = self::keys();
    let asked = now(&later).await;
    later.advance(31 * SECOND);
    tell(&later, asked, MINUTE).await;
    assert!(!is_known(&later).await, "it comes too late");
    let asked = now(&later).await;
    tell(&later, Moment(asked.0 + 11_000_000), MINUTE).await;
    assert!(!is_known(&later).await, "the clock was set back");
    tell(&later, asked, MINUTE).await;
    assert!(is_known(&later).await);
}

#[tokio::test]
async fn a_change_is_kept_in_mind_for_longer_than_an_answer_may_be_late() {
    let (keys, server, name) = keys();
    keys.forget(&key()).await.unwrap();
    let left = server.ask(["PTTL", &format!("{name}:{{orders:a}}~known")]);
    let left: u64 = left.unwrap().trim().parse().unwrap();
    assert!((45_000..=60_000).contains(&left), "{left}");
}

#[tokio::test]
async fn what_another_program_has_put_there_is_nothing() {
    let (keys, server, name) = keys();
    let entry = format!("{name}:{{orders:a}}~known");
    let far = "9".repeat(16);
    for garbage in [
        "",
        "garbage",
        &"x".repeat(40),
        &far.repeat(2),
        &format!("{}9", far.repeat(2)),
    ] {
        server.ask(["SET", &entry, garbage]).unwrap();
        assert!(!is_known(&keys).await, "{garbage}");
    }
    server.ask(["DEL", &entry]).unwrap();
    server.ask(["RPUSH", &entry, "x"]).unwrap();
    assert!(!is_known(&keys).await);
}

/// A worker of its own.
fn worker(store: &MemoryStore, cache: &SharedCache) -> Cached<MemoryStore> {
    Cached::builder(store.clone()).shared(cache.clone()).build()
}

async fn hits(cached: &Cached<MemoryStore>, request: &ClaimRequest) -> (bool, Claim) {
    let before = cached.stats().hits();
    let answer = cached.claim(request).await.unwrap();
    (cached.stats().hits() > before, answer)
}

/// Until others know what was told.
async fn until_known(cached: &Cached<MemoryStore>, request: &ClaimRequest) {
    for _ in 0..500 {
        if hits(cached, request).await.0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it is never known");
}

fn of(content: &str) -> ClaimRequest {
    request("a").fingerprint(Fingerprint::of(content.as_bytes()))
}

async fn handle(cached: &Cached<MemoryStore>, request: &ClaimRequest) {
    let Claim::Acquired(lease) = cached.claim(request).await.unwrap() else {
        panic!("it is free")
    };
    let outcome = Outcome::new("done");
    let completed = cached.complete(&lease, &outcome, 10 * MINUTE);
    assert_eq!(completed.await.unwrap(), Write::Applied);
}

fn cache_on(server: &Node) -> SharedCache {
    let cache = RedisStore::builder(&server.url()).cache(&unique());
    cache.unwrap().within(PATIENCE)
}

#[tokio::test]
async fn a_copy_at_another_worker_is_answered_without_the_store_and_other_content_is_the_stores() {
    let store = MemoryStore::new();
    let cache = cache_on(idem_servers::redis::shared().unwrap());
    let [here, there] = [worker(&store, &cache), worker(&store, &cache)];
    handle(&here, &of("content")).await;
    until_known(&there, &of("content")).await;
    let (hit, answer) = hits(&there, &of("content")).await;
    assert!(
        hit && matches!(answer, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"done")
    );
    assert!(
        hits(&there, &request("a")).await.0,
        "content is not compared"
    );
    assert_eq!(hits(&there, &of("other")).await, (false, Claim::KeyReused));
}

#[tokio::test]
async fn a_replay_and_other_content_that_the_store_lets_run_make_all_forget_the_key() {
    for (first, second) in [
        (of("content"), of("content").replay(true)),
        (of("content"), of("other")),
    ] {
        let store = MemoryStore::new();
        let cache = cache_on(idem_servers::redis::shared().unwrap());
        let [here, there] = [worker(&store, &cache), worker(&store, &cache)];
        handle(&here, &first).await;
        until_known(&there, &first).await;
        // An operator's hand that the cache does not see.
        store.forget(&first.key);
        let Claim::Acquired(_) = there.claim(&second).await.unwrap() else {
            panic!("it runs")
        };
        let mut tries = 0;
        loop {
            let (hit, answer) = hits(&here, &first).await;
            if !hit {
                assert!(matches!(answer, Claim::Held { .. }), "{answer:?}");
                break;
            }
            tries += 1;
            assert!(tries < 500, "it is never forgotten");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn what_an_operator_forgets_through_one_cache_all_forget() {
    use crate::store::{
        Look as _,
        operator::{Intervened, Intervention, OperatorStore as _},
    };

    let store = MemoryStore::new();
    let cache = cache_on(idem_servers::redis::shared().unwrap());
    let [here, there] = [worker(&store, &cache), worker(&store, &cache)];
    handle(&here, &request("a")).await;
    until_known(&there, &request("a")).await;
    let known = here.look(&key()).await.unwrap();
    let seen = known.map(|known| known.record.seen());
    let forget = Intervention::forget(key(), seen, "operator@ops-1");
    let applied = here.intervene(&forget).await.unwrap();
    assert_eq!(applied, Intervened::Applied);
    handle(&there, &request("a")).await;
}

#[tokio::test]
async fn a_cache_that_is_frozen_emptied_or_gone_is_left_alone_and_the_store_is_asked() {
    let server = Redis::start().unwrap();
    let cache = cache_on(&server).within(Duration::from_millis(200));
    let store = MemoryStore::new();
    let [here, there] = [worker(&store, &cache), worker(&store, &cache)];
    // It may take its time to connect.
    tokio::time::sleep(SECOND).await;
    handle(&here, &request("a")).await;
    until_known(&there, &request("a")).await;

    server.ask(["FLUSHALL"]).unwrap();
    let completed = |answer: &Claim| matches!(answer, Claim::Completed { .. });
    let (hit, answer) = hits(&there, &request("a")).await;
    assert!(!hit && completed(&answer), "it was emptied");
    until_known(&here, &request("a")).await;

    server.freeze().unwrap();
    let before = std::time::Instant::now();
    for number in 0..100 {
        handle(&here, &request(number)).await;
        let (hit, answer) = hits(&there, &request("a")).await;
        assert!(!hit && completed(&answer), "it is frozen");
    }
    let took = before.elapsed();
    assert!(took < 3 * SECOND, "once a second it waits: {took:?}");
    server.thaw().unwrap();
    until_known(&there, &request("a")).await;

    drop(server);
    let (hit, answer) = hits(&there, &request("a")).await;
    assert!(!hit && completed(&answer), "it is gone");
    handle(&here, &request("b")).await;
}

#[tokio::test]
async fn a_cache_that_is_not_there_yet_is_known_to_be_there_later() {
    let server = Redis::start().unwrap();
    server.freeze().unwrap();
    let cache = cache_on(&server).within(Duration::from_millis(100));
    let store = MemoryStore::new();
    let cached = worker(&store, &cache);
    handle(&cached, &request("a")).await;
    server.thaw().unwrap();
    until_known(&cached, &request("a")).await;
}

#[test]
fn a_name_that_cannot_be_one_and_a_url_that_makes_no_sense_are_refused_at_once() {
    assert!(
        RedisStore::builder("redis://localhost")
            .cache("a b")
            .is_err()
    );
    assert!(RedisStore::builder("redis:/localhost").cache("a").is_err());
}
