use super::*;

#[tokio::test]
async fn a_server_out_of_memory_refuses_and_says_so() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    let lease = acquire(&store, 1).await;
    let limit = |bytes| server.cli(["CONFIG", "SET", "maxmemory", bytes]).unwrap();
    limit("1");
    let said = refused(store.claim(&request(2)).await);
    assert!(said.contains("`maxmemory`"), "{said}");
    let outcome = Outcome::new("done");
    let said = refused(store.complete(&lease, &outcome, MINUTE).await);
    assert!(said.contains("`maxmemory`"), "{said}");
    limit("0");
    complete(&store, &lease).await;
    acquire(&store, 2).await;
}

#[tokio::test]
async fn a_duplicate_is_told_even_if_memory_is_full() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    let lease = acquire(&store, 1).await;
    complete(&store, &lease).await;
    server.cli(["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    assert!(is_completed(&store, 1).await);
}

#[tokio::test]
async fn a_server_that_cannot_save_refuses_and_says_so() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    let needs = ["CONFIG", "SET", "min-replicas-to-write", "1"];
    server.cli(needs).unwrap();
    let said = refused(store.claim(&request(1)).await);
    assert!(said.contains("`min-replicas-to-write`"), "{said}");
}
