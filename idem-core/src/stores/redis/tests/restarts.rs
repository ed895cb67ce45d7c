use super::*;

#[tokio::test]
async fn scripts_that_the_server_has_dropped_are_sent_again() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    let flush = || server.ask(["SCRIPT", "FLUSH"]).unwrap();
    flush();
    let lease = acquire(&store, 1).await;
    flush();
    let extended = store.extend(&lease, MINUTE).await;
    assert_eq!(extended.unwrap(), Write::Applied);
    flush();
    complete(&store, &lease).await;
    let lease = acquire(&store, 2).await;
    flush();
    let released = store.release(&lease, &Release::Abandoned).await;
    assert_eq!(released.unwrap(), Write::Applied);
}

#[tokio::test]
async fn what_was_answered_survives_a_crash_with_an_append_only_file() {
    let server = Redis::start_with(&[("appendonly", "yes"), ("appendfsync", "always")]).unwrap();
    let store = impatient(&server).await;
    let done = acquire(&store, "done").await;
    complete(&store, &done).await;
    let asking = request("open");
    let open = acquire_as(&store, &asking).await;
    server.kill().unwrap();
    server.restart().unwrap();
    assert!(is_completed(&store, "done").await);
    assert_eq!(acquire_as(&store, &asking).await, open);
    complete(&store, &open).await;
}

#[tokio::test]
async fn a_restart_without_any_file_forgets_all_but_tokens_grow() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    let before = acquire(&store, 1).await;
    complete(&store, &before).await;
    server.kill().unwrap();
    server.restart().unwrap();
    let after = acquire(&store, 1).await;
    assert!(after.token > before.token);
    let late = store.complete(&before, &Outcome::new("late"), MINUTE).await;
    assert_eq!(late.unwrap(), Write::Fenced);
}

#[tokio::test]
async fn tokens_grow_over_a_flush() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    let before = acquire(&store, 1).await;
    server.ask(["FLUSHALL"]).unwrap();
    assert!(acquire(&store, 1).await.token > before.token);
}

#[tokio::test]
async fn tokens_grow_though_the_clock_has_stepped_back() {
    let (store, server) = store().await;
    let prefix = store.calls.naming.prefix();
    let behind = RedisStore::builder(&server.url()).prefix(prefix);
    let behind = behind.build().await.unwrap();
    store.advance(MINUTE);
    let before = acquire(&store, 1).await;
    let released = store.release(&before, &Release::Abandoned).await;
    assert_eq!(released.unwrap(), Write::Applied);
    let after = acquire(&behind, 1).await;
    assert_eq!(after.token.get(), before.token.get() + 1);
}
