use std::collections::BTreeSet;

use futures_util::future::join_all;
use tokio::task::{JoinHandle, yield_now};

use super::*;

fn claim_later(store: &RedisStore, id: u32) -> JoinHandle<Result<Claim, StoreError>> {
    let store = store.clone();
    tokio::spawn(async move { store.claim(&request(id)).await })
}

/// How many scripts the server has run.
fn scripts(server: &Redis) -> u32 {
    calls_of("evalsha", server)
}

#[tokio::test]
async fn calls_that_queue_share_a_script() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    acquire(&store, "first").await;
    let before = scripts(&server);
    let leases = join_all((0..500).map(|id| acquire(&store, id))).await;
    let claiming = scripts(&server) - before;
    assert!((2..=6).contains(&claiming), "{claiming} scripts");
    join_all(leases.iter().map(|lease| complete(&store, lease))).await;
    let completing = scripts(&server) - before - claiming;
    assert!((2..=6).contains(&completing), "{completing} scripts");
}

#[tokio::test]
async fn claims_in_one_batch_have_tokens_of_their_own() {
    let (store, _) = store().await;
    let leases = join_all((0..50).map(|id| acquire(&store, id))).await;
    let tokens: BTreeSet<_> = leases.iter().map(|lease| lease.token).collect();
    assert_eq!(tokens.len(), 50);
}

#[tokio::test]
async fn claims_of_one_key_in_one_batch_go_to_one() {
    let (store, _) = store().await;
    let answers =
        join_all((0..50).map(|_| async { store.claim(&request(1)).await.unwrap() })).await;
    let count = |wanted: fn(&Claim) -> bool| answers.iter().filter(|claim| wanted(claim)).count();
    let acquired = count(|claim| matches!(claim, Claim::Acquired(_)));
    let held = count(|claim| matches!(claim, Claim::Held { .. }));
    assert_eq!((acquired, held), (1, 49));
}

#[tokio::test]
async fn a_claim_that_is_repeated_in_one_batch_gets_one_lease() {
    let (store, _) = store().await;
    let asking = request(1);
    let leases = join_all((0..5).map(|_| acquire_as(&store, &asking))).await;
    for lease in &leases {
        assert_eq!(lease, &leases[0]);
    }
}

#[tokio::test]
async fn writes_of_one_lease_in_one_batch_are_carried_out_in_order() {
    let (store, _) = store().await;
    alike::writes_of_one_lease_are_carried_out_in_order(&store).await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_fails_its_own_callers_only() {
    let (store, server) = store().await;
    for id in [1, 3] {
        acquire(&store, id).await;
        server.ask(["DEL", &record(&store, id)]).unwrap();
    }
    server.ask(["RPUSH", &record(&store, 1), "a list"]).unwrap();
    server.ask(["SET", &record(&store, 3), "\u{1}"]).unwrap();
    server.ask(["SET", &record(&store, 5), "else"]).unwrap();
    let requests: Vec<_> = (0..7).map(request).collect();
    let answers = join_all(requests.iter().map(|asking| store.claim(asking))).await;
    for (id, answer) in (0..7).zip(answers) {
        if id % 2 == 0 {
            assert!(matches!(answer, Ok(Claim::Acquired(_))), "{id}: {answer:?}");
        } else {
            let word = ["WRONGTYPE", "too short", "UNREADABLE"][id / 2];
            let said = corrupt(answer);
            assert!(said.contains(word), "{id}: {said}");
        }
    }
}

#[tokio::test]
async fn a_claim_whose_caller_has_gone_is_not_sent() {
    let server = Redis::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    acquire(&store, "warm").await;
    server.freeze().unwrap();
    // One goes alone and two as batches, so that the next ones have to wait.
    let mut kept = Vec::new();
    for id in 0..3 {
        kept.push(claim_later(&store, id));
        yield_now().await;
        yield_now().await;
    }
    let dropped = claim_later(&store, 3);
    kept.push(claim_later(&store, 4));
    yield_now().await;
    dropped.abort();
    yield_now().await;
    server.thaw().unwrap();
    for call in kept {
        let answer = call.await.unwrap();
        assert!(matches!(answer, Ok(Claim::Acquired(_))), "{answer:?}");
    }
    let there = server.ask(["EXISTS", &record(&store, 3)]).unwrap();
    assert_eq!(there.trim(), "0");
}

#[tokio::test]
async fn large_outcomes_do_not_share_one_script() {
    let server = Redis::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let leases = join_all((0..10).map(|id| acquire(&store, id))).await;
    let before = scripts(&server);
    let large = Outcome::new(vec![7; 300 << 10]);
    let written = leases
        .iter()
        .map(|lease| store.complete(lease, &large, MINUTE));
    for written in join_all(written).await {
        assert_eq!(written.unwrap(), Write::Applied);
    }
    // The first goes alone, and three of the others are a batch.
    assert_eq!(scripts(&server) - before, 4);
    let claim = store.claim(&request(8)).await.unwrap();
    assert!(matches!(claim, Claim::Completed { outcome, .. } if outcome == large));
}
