use tokio::time::advance;

use super::*;
use crate::stores::tests::{MINUTE, acquire, request};

async fn work(store: &MemoryStore, id: u32) -> Lease {
    let lease = acquire(store, id).await;
    let outcome = Outcome::default();
    let done = store.complete(&lease, &outcome, 10 * MINUTE).await;
    assert_eq!(done.unwrap(), Write::Applied);
    lease
}

#[tokio::test(start_paused = true)]
async fn clones_share_what_they_remember() {
    let store = MemoryStore::new();
    work(&store.clone(), 1).await;
    let answer = store.claim(&request(1)).await.unwrap();
    assert!(matches!(answer, Claim::Completed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_new_keys_until_a_retention_ends() {
    let store = MemoryStore::builder().capacity(2).build();
    work(&store, 1).await;
    let held = acquire(&store, 2).await;

    let refused = store.claim(&request(3)).await;
    assert!(matches!(refused, Err(StoreError::Full(2))));
    assert_matches!(store.claim(&request(2)).await, Ok(Claim::Held { .. }));
    assert_matches!(store.claim(&request(1)).await, Ok(Claim::Completed { .. }));
    let kept = store.extend(&held, 20 * MINUTE).await;
    assert_eq!(kept.unwrap(), Write::Applied);

    advance(10 * MINUTE).await;
    acquire(&store, 3).await;
    let refused = store.claim(&request(4)).await;
    assert!(matches!(refused, Err(StoreError::Full(2))));
}

#[tokio::test(start_paused = true)]
async fn purge_removes_a_batch_at_a_time_and_nothing_that_is_remembered() {
    let store = MemoryStore::new();
    for id in 0..5 {
        work(&store, id).await;
    }
    let held = acquire(&store, 5).await;
    let kept = store.extend(&held, 20 * MINUTE).await;
    assert_eq!(kept.unwrap(), Write::Applied);
    advance(9 * MINUTE).await;
    work(&store, 6).await;
    assert_eq!(store.purge(10).await.unwrap(), 0);

    advance(MINUTE).await;
    assert_eq!(store.purge(3).await.unwrap(), 3);
    assert_eq!(store.purge(3).await.unwrap(), 2);
    assert_matches!(store.claim(&request(5)).await, Ok(Claim::Held { .. }));
    assert_matches!(store.claim(&request(6)).await, Ok(Claim::Completed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_purged_key_gets_a_greater_token_even_at_the_same_moment() {
    let store = MemoryStore::new();
    let mut first = acquire(&store, 1).await;
    for _ in 0..3 {
        let released = store.release(&first, &Release::Abandoned).await;
        assert_eq!(released.unwrap(), Write::Applied);
        first = acquire(&store, 1).await;
    }
    store.forget(&first.key);
    assert!(acquire(&store, 1).await.token > first.token);
}

/// It is looked at when it would have ended without that, and once more in its time.
#[tokio::test(start_paused = true)]
async fn a_record_that_lives_longer_than_it_was_to_is_purged_when_its_time_has_come() {
    let store = MemoryStore::new();
    let held = acquire(&store, 1).await;
    let kept = store.extend(&held, 20 * MINUTE).await;
    assert_eq!(kept.unwrap(), Write::Applied);
    let mut minutes = 0_u64;
    while store.purge(10).await.unwrap() == 0 {
        minutes += 1;
        advance(MINUTE).await;
        assert!(minutes < 100, "it is never purged");
    }
    // Twenty of its lease, and its retention.
    let retention = request(1).retention;
    assert_eq!(minutes, 20 + retention.as_secs() / 60);
}
