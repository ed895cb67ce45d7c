use std::{num::NonZeroUsize, time::Instant};

use tokio::task::JoinSet;

use super::*;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// A primary and its replica, which has caught up.
fn pair() -> (Redis, Redis) {
    let primary = Redis::start_with(&[("repl-diskless-sync-delay", "0")]).unwrap();
    let following = format!("127.0.0.1 {}", primary.port());
    let replica = Redis::start_with(&[("replicaof", &following)]).unwrap();
    let caught_up = || {
        let info = replica.ask(["INFO", "replication"]).unwrap();
        info.contains("master_link_status:up")
    };
    let deadline = Instant::now() + MINUTE;
    while !caught_up() {
        assert!(Instant::now() < deadline, "the replica follows");
        std::thread::sleep(Duration::from_millis(10));
    }
    (primary, replica)
}

async fn waiting(server: &Redis, within: Duration) -> RedisStore {
    let store = RedisStore::builder(&server.url()).min_replicas(ONE, within);
    store.build().await.unwrap()
}

#[tokio::test]
async fn a_replica_takes_no_claims_and_says_so() {
    let (_primary, replica) = pair();
    let store = impatient(&replica).await;
    let said = unavailable(store.claim(&request(1)).await);
    assert!(said.contains("replica"), "{said}");
    replica.ask(["REPLICAOF", "NO", "ONE"]).unwrap();
    acquire(&store, 1).await;
}

#[tokio::test]
async fn a_promoted_replica_has_forgotten_what_it_never_had_but_tokens_grow() {
    let (primary, replica) = pair();
    let store = waiting(&primary, MINUTE).await;
    let early = acquire(&store, "early").await;
    complete(&store, &early).await;
    // From here on the replica misses everything, and then it is promoted.
    replica.ask(["REPLICAOF", "NO", "ONE"]).unwrap();
    let store = impatient(&primary).await;
    let lost = acquire(&store, "lost").await;
    complete(&store, &lost).await;
    primary.kill().unwrap();
    let promoted = impatient(&replica).await;
    assert!(is_completed(&promoted, "early").await);
    let again = acquire(&promoted, "lost").await;
    assert!(again.token > lost.token);
    let late = Outcome::new("late");
    let written = promoted.complete(&lost, &late, MINUTE).await;
    assert_eq!(written.unwrap(), Write::Fenced);
}

#[tokio::test]
async fn an_answer_that_waited_for_a_replica_survives_the_fail_over() {
    let (primary, replica) = pair();
    let store = waiting(&primary, MINUTE).await;
    for id in 0..50 {
        let lease = acquire(&store, id).await;
        complete(&store, &lease).await;
    }
    primary.kill().unwrap();
    replica.ask(["REPLICAOF", "NO", "ONE"]).unwrap();
    let promoted = impatient(&replica).await;
    for id in 0..50 {
        assert!(is_completed(&promoted, id).await, "{id}");
    }
}

#[tokio::test]
async fn without_enough_replicas_every_answer_is_unknown_and_may_be_repeated() {
    let server = Redis::start().unwrap();
    let store = waiting(&server, Duration::from_millis(50)).await;
    let asking = request(1);
    let said = refused(store.claim(&asking).await);
    assert!(said.starts_with("0 replicas have confirmed"), "{said}");
    let plain = impatient(&server).await;
    let lease = acquire_as(&plain, &asking).await;
    assert_eq!(lease.attempt, 1);
    let outcome = Outcome::new("done");
    let said = refused(store.complete(&lease, &outcome, MINUTE).await);
    assert!(said.starts_with("0 replicas"), "{said}");
    // Not even what another connection has written is told before a replica has it.
    let said = refused(store.claim(&request(1)).await);
    assert!(said.starts_with("0 replicas"), "{said}");
    assert!(is_completed(&plain, 1).await);
}

#[tokio::test]
async fn calls_that_come_together_wait_for_replicas_together() {
    let (primary, _replica) = pair();
    let store = waiting(&primary, MINUTE).await;
    let mut callers = JoinSet::new();
    for caller in 0..500 {
        let store = store.clone();
        callers.spawn(async move {
            let lease = acquire(&store, caller).await;
            complete(&store, &lease).await;
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    let waits = calls_of("wait", &primary);
    assert!((1..250).contains(&waits), "{waits} waits for 1,000 calls");
}

#[tokio::test]
async fn a_store_that_waits_for_replicas_sends_scripts_again_and_heals() {
    let (primary, _replica) = pair();
    let store = waiting(&primary, MINUTE).await;
    let lease = acquire(&store, 1).await;
    primary.ask(["SCRIPT", "FLUSH"]).unwrap();
    complete(&store, &lease).await;
    primary.ask(["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    assert!(is_completed(&store, 1).await);
}

#[tokio::test]
async fn a_frozen_replica_makes_answers_unknown_until_it_thaws() {
    let (primary, replica) = pair();
    let store = waiting(&primary, Duration::from_millis(200)).await;
    let asking = request(1);
    replica.freeze().unwrap();
    refused(store.claim(&asking).await);
    replica.thaw().unwrap();
    let patient = waiting(&primary, MINUTE).await;
    let lease = acquire_as(&patient, &asking).await;
    complete(&patient, &lease).await;
}

#[tokio::test]
async fn a_duplicate_is_not_told_before_a_replica_has_the_completion() {
    let (primary, replica) = pair();
    replica.freeze().unwrap();
    let plain = impatient(&primary).await;
    let lease = acquire(&plain, 1).await;
    complete(&plain, &lease).await;
    let store = waiting(&primary, Duration::from_millis(200)).await;
    let said = refused(store.claim(&request(1)).await);
    assert!(said.starts_with("0 replicas"), "{said}");
    replica.thaw().unwrap();
    assert!(is_completed(&waiting(&primary, MINUTE).await, 1).await);
}

#[tokio::test]
async fn a_primary_that_was_demoted_is_left_by_those_who_wait_for_replicas() {
    let (primary, replica) = pair();
    let store = waiting(&primary, MINUTE).await;
    acquire(&store, 1).await;
    let following = replica.port().to_string();
    replica.ask(["REPLICAOF", "NO", "ONE"]).unwrap();
    primary.ask(["REPLICAOF", "127.0.0.1", &following]).unwrap();
    let before = connections(&primary);
    for _ in 0..2 {
        let said = unavailable(store.claim(&request(2)).await);
        assert!(said.contains("replica"), "{said}");
    }
    // Its name may lead to the new primary by now.
    assert!(connections(&primary) > before + 1, "it connects again");
}

/// How many connections the server has ever accepted; to ask is one more.
fn connections(server: &Redis) -> u32 {
    let stats = server.ask(["INFO", "stats"]).unwrap();
    let (_, rest) = stats.split_once("total_connections_received:").unwrap();
    let number = rest.lines().next().unwrap();
    number.trim().parse().unwrap()
}
