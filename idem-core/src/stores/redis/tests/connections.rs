use std::time::Instant;

use tokio::task::JoinSet;

use super::*;

fn cut_all(server: &Redis) {
    server.ask(["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
}

#[tokio::test]
async fn a_connection_that_broke_while_idle_costs_no_caller_an_error() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    let lease = acquire(&store, 1).await;
    cut_all(&server);
    complete(&store, &lease).await;
    cut_all(&server);
    assert!(is_completed(&store, 1).await);
}

#[tokio::test]
async fn connections_that_break_under_load_cost_no_caller_an_error() {
    const CALLERS: usize = 8;
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    for round in 0..20 {
        let calls = (0..CALLERS).map(|caller| {
            let store = store.clone();
            async move {
                for step in 0..20 {
                    let lease = acquire(&store, format!("{round}-{caller}-{step}")).await;
                    complete(&store, &lease).await;
                }
            }
        });
        let mut callers: JoinSet<()> = calls.collect();
        // Once they are under way.
        tokio::task::yield_now().await;
        cut_all(&server);
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_unavailable_at_once_and_found_again() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    server.kill().unwrap();
    let started = Instant::now();
    for _ in 0..3 {
        unavailable(store.claim(&request(1)).await);
    }
    assert!(started.elapsed() < Duration::from_secs(15));
    server.restart().unwrap();
    acquire(&store, 1).await;
}

#[tokio::test]
async fn a_frozen_server_is_unavailable_within_the_timeout_and_heals() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    acquire(&store, "warm").await;
    let asking = request(1);
    server.freeze().unwrap();
    let started = Instant::now();
    let said = unavailable(store.claim(&asking).await);
    assert!(said.contains("timed out"), "{said}");
    assert!(started.elapsed() < Duration::from_secs(15));
    unavailable(store.claim(&asking).await);
    assert!(started.elapsed() < Duration::from_secs(15));
    server.thaw().unwrap();
    let lease = acquire_as(&store, &asking).await;
    assert_eq!(lease.attempt, 1);
    complete(&store, &lease).await;
}

#[tokio::test]
async fn all_who_wait_for_a_frozen_server_are_told_in_time() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    server.freeze().unwrap();
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..2000 {
        let store = store.clone();
        callers.spawn(async move { store.claim(&request(caller)).await });
    }
    while let Some(answer) = callers.join_next().await {
        unavailable(answer.unwrap());
    }
    assert!(started.elapsed() < Duration::from_secs(15));
    server.thaw().unwrap();
    acquire(&store, 1).await;
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_the_same_claim_when_repeated() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    acquire(&store, "warm").await;
    let asking = request(1);
    server.freeze().unwrap();
    unavailable(store.claim(&asking).await);
    server.thaw().unwrap();
    // The frozen server has it in its buffer, and carries it out now.
    let mut lease = acquire_as(&store, &asking).await;
    for _ in 0..3 {
        let again = acquire_as(&store, &asking).await;
        assert_eq!(again, lease);
        lease = again;
    }
    assert_eq!(lease.attempt, 1);
}
