//! A primary that sentinels name, and another server that takes its place.

use std::{num::NonZeroUsize, time::Instant};

use idem_servers::RedisSentinels;

use super::*;

async fn store(sentinels: &RedisSentinels) -> RedisStore {
    let timeout = Duration::from_secs(2);
    let store = RedisStore::builder(&sentinels.url())
        .connect_timeout(timeout)
        .response_timeout(timeout);
    store.build().await.unwrap()
}

/// The claim, as soon as there is an answer.
async fn in_the_end(store: &RedisStore, id: &str) -> Claim {
    let deadline = Instant::now() + MINUTE;
    loop {
        match store.claim(&request(id)).await {
            Ok(claim) => return claim,
            Err(StoreError::Unavailable(_)) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{}", in_full(&error)),
        }
    }
}

/// Waits until a server has received this key.
async fn until_copied(server: &Redis, key: &str) {
    let deadline = Instant::now() + MINUTE;
    while server.ask(["EXISTS", key]).unwrap().trim() != "1" {
        assert!(Instant::now() < deadline, "{key} is copied");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_store_follows_a_fail_over_and_tokens_grow() {
    let sentinels = RedisSentinels::start().unwrap();
    let [first, second] = sentinels.servers();
    let store = store(&sentinels).await;
    let early = acquire(&store, "early").await;
    complete(&store, &early).await;
    let held = acquire(&store, "held").await;
    // `WAIT` speaks of its own connection's writes: this one comes after all others.
    first.ask(["SET", "last", ""]).unwrap();
    until_copied(second, "last").await;
    first.kill().unwrap();
    let claim = in_the_end(&store, "early").await;
    assert!(matches!(claim, Claim::Completed { .. }), "{claim:?}");
    sentinels.wait_until_primary(second).unwrap();
    complete(&store, &held).await;
    let late = acquire(&store, "late").await;
    assert!(late.token > held.token);

    // The old one comes back as a replica, and takes the place of the other one in its turn.
    first.restart().unwrap();
    // Sentinel does nothing for 30 s whenever the machine has held its timer up (its TILT mode).
    let deadline = Instant::now() + 3 * MINUTE;
    // It also cuts the connections of the server that it makes a replica.
    while !first
        .ask(["INFO", "replication"])
        .is_ok_and(|info| info.contains("master_link_status:up"))
    {
        assert!(Instant::now() < deadline, "it follows");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    complete(&store, &late).await;
    second.ask(["SET", "latest", ""]).unwrap();
    until_copied(first, "latest").await;
    second.kill().unwrap();
    sentinels.wait_until_primary(first).unwrap();
    let claim = in_the_end(&store, "late").await;
    assert!(matches!(claim, Claim::Completed { .. }), "{claim:?}");
}

#[tokio::test]
async fn a_primary_that_hangs_is_left_and_gets_nothing_when_it_is_back() {
    let sentinels = RedisSentinels::start().unwrap();
    let [first, second] = sentinels.servers();
    let store = store(&sentinels).await;
    let before = acquire(&store, "before").await;
    first.freeze().unwrap();
    sentinels.wait_until_primary(second).unwrap();
    let Claim::Acquired(lease) = in_the_end(&store, "after").await else {
        panic!("it is free")
    };
    first.thaw().unwrap();
    complete(&store, &lease).await;
    complete(&store, &before).await;
    let name = record(&store, "after");
    assert_eq!(second.ask(["EXISTS", &name]).unwrap().trim(), "1");
    // It follows the other one now, from which it has all it has.
    let deadline = Instant::now() + MINUTE;
    // Sentinel cuts its connections then.
    while !first
        .ask(["ROLE"])
        .is_ok_and(|role| role.starts_with("slave"))
    {
        assert!(Instant::now() < deadline, "it becomes a replica");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn any_sentinel_will_do_and_none_is_needed_by_a_connection_that_is_there() {
    let sentinels = RedisSentinels::start().unwrap();
    let [one, two, three] = sentinels.sentinels() else {
        panic!("three of them")
    };
    one.kill().unwrap();
    two.freeze().unwrap();
    let store = store(&sentinels).await;
    acquire(&store, 1).await;
    three.kill().unwrap();
    acquire(&store, 2).await;
    let without = RedisStore::builder(&sentinels.url()).connect_timeout(Duration::from_millis(300));
    let said = in_full(&without.build().await.unwrap_err());
    let address = format!("redis at 127.0.0.1:{}", one.port());
    assert!(
        said.contains(&address) && said.contains("refused"),
        "{said}"
    );
}

#[tokio::test]
async fn a_name_that_the_sentinels_do_not_know_is_said() {
    let sentinels = RedisSentinels::start().unwrap();
    let url = sentinels.url().replace("/orders", "/oders");
    let said = in_full(&RedisStore::connect(&url).await.unwrap_err());
    assert!(
        said.contains("know no primary of this name") && said.contains("oders"),
        "{said}"
    );
}

#[tokio::test]
async fn the_password_of_the_servers_is_not_that_of_the_sentinels() {
    let sentinels = RedisSentinels::start().unwrap();
    sentinels.servers()[0]
        .ask(["CONFIG", "SET", "requirepass", "hush"])
        .unwrap();
    let said = in_full(&RedisStore::connect(&sentinels.url()).await.unwrap_err());
    assert!(said.contains("asks for a password"), "{said}");
    let url = sentinels.url().replace("//", "//:hush@");
    acquire(&RedisStore::connect(&url).await.unwrap(), 1).await;
    // These sentinels have none, and say so.
    let url = format!("{url}?sentinel_password=still");
    let said = in_full(&RedisStore::connect(&url).await.unwrap_err());
    assert!(said.contains("assword"), "{said}");
    assert!(!said.contains("hush") && !said.contains("still"), "{said}");
}

#[tokio::test]
async fn sentinels_with_a_password_of_their_own_are_told_it_and_the_servers_are_not() {
    let sentinels = RedisSentinels::start_asking_for("hush").unwrap();
    for query in [
        "",
        "?sentinel_password=still",
        "?sentinel_user=nobody&sentinel_password=hush",
    ] {
        let url = format!("{}{query}", sentinels.url());
        let said = in_full(&RedisStore::connect(&url).await.unwrap_err());
        let advice = "the sentinels have passwords of their own: write `redis+sentinel://";
        assert!(said.contains(advice), "{query}: {said}");
        assert!(!said.contains("hush") && !said.contains("still"), "{said}");
    }
    let timeout = Duration::from_secs(2);
    let url = format!("{}?sentinel_password=hush", sentinels.url());
    let store = RedisStore::builder(&url)
        .connect_timeout(timeout)
        .response_timeout(timeout);
    let store = store.build().await.unwrap();
    acquire(&store, 1).await;
    // They are asked again when another server has taken the place.
    let [first, second] = sentinels.servers();
    first.kill().unwrap();
    sentinels.wait_until_primary(second).unwrap();
    assert!(matches!(
        in_the_end(&store, "after").await,
        Claim::Acquired(_)
    ));

    // The same as a user who may ask for nothing else.
    let only = ["on", ">quiet", "+sentinel|get-master-addr-by-name"];
    for sentinel in sentinels.sentinels() {
        let words = ["ACL", "SETUSER", "app"].into_iter().chain(only);
        sentinel.ask(words).unwrap();
    }
    let url = format!(
        "{}?sentinel_user=app&sentinel_password=quiet",
        sentinels.url()
    );
    acquire(&RedisStore::connect(&url).await.unwrap(), 2).await;
}

#[tokio::test]
async fn what_waited_for_a_replica_survives_a_fail_over_by_sentinels() {
    let sentinels = RedisSentinels::start().unwrap();
    let store = RedisStore::builder(&sentinels.url()).min_replicas(NonZeroUsize::MIN, MINUTE);
    let store = store.build().await.unwrap();
    for id in 0..50 {
        let lease = acquire(&store, id).await;
        complete(&store, &lease).await;
    }
    sentinels.servers()[0].kill().unwrap();
    sentinels
        .wait_until_primary(&sentinels.servers()[1])
        .unwrap();
    let survivor = self::store(&sentinels).await;
    for id in 0..50 {
        assert!(is_completed(&survivor, id).await, "{id}");
    }
}
