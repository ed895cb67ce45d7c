//! What a cache answers, and what it leaves to the store.

mod operator;

use tokio::time::advance;

use super::*;
use crate::{
    handler::{Outcome, Policy},
    message::{Fingerprint, Key},
    store::{Claim, ClaimRequest, Lease, OutOfPlace, Release, Write},
    stores::MemoryStore,
};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

type Cache = Cached<MemoryStore>;

fn cache() -> Cache {
    Cached::new(MemoryStore::new())
}

/// Another process's cache in front of the same store.
fn another(cache: &Cache) -> Cache {
    Cached::new(cache.store().clone())
}

fn request() -> ClaimRequest {
    ClaimRequest::new(Key::new("orders", "o-1").unwrap(), &Policy::DEFAULT)
}

fn of(content: &str) -> ClaimRequest {
    request().fingerprint(Fingerprint::of(content.as_bytes()))
}

async fn acquire(cache: &Cache, request: &ClaimRequest) -> Lease {
    match cache.claim(request).await {
        Ok(Claim::Acquired(lease)) => lease,
        other => panic!("{other:?}"),
    }
}

async fn complete(cache: &Cache, lease: &Lease, outcome: &str, retention: Duration) {
    let outcome = Outcome::new(outcome.to_owned());
    let written = cache.complete(lease, &outcome, retention).await;
    assert_eq!(written.unwrap(), Write::Applied);
}

/// Claims with this request, completes, and leaves the cache with what it learnt from that.
async fn done(cache: &Cache, request: &ClaimRequest) {
    let lease = acquire(cache, request).await;
    complete(cache, &lease, "done", Policy::DEFAULT.retention()).await;
}

/// The operator's hand: the key is gone from the store, and from nowhere else.
fn forget(cache: &Cache, key: &Key) {
    cache.store().forget(key);
}

async fn hits(cache: &Cache, request: &ClaimRequest) -> (bool, Claim) {
    let before = cache.stats().hits();
    let answer = cache.claim(request).await.unwrap();
    (cache.stats().hits() > before, answer)
}

#[tokio::test(start_paused = true)]
async fn what_was_completed_here_is_answered_without_the_store() {
    let cache = cache();
    done(&cache, &of("a")).await;
    let (hit, answer) = hits(&cache, &of("a")).await;
    assert!(
        hit && matches!(answer, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"done")
    );
    assert_eq!((cache.stats().lookups(), cache.stats().hits()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn what_the_store_has_told_is_answered_the_next_time() {
    let first = cache();
    done(&first, &of("a")).await;
    let second = another(&first);
    assert!(!hits(&second, &of("a")).await.0);
    assert!(hits(&second, &of("a")).await.0);
}

#[tokio::test(start_paused = true)]
async fn what_remains_of_the_retention_counts_down() {
    let cache = cache();
    done(&cache, &request()).await;
    advance(20 * SECOND).await;
    let left = Policy::DEFAULT.retention().saturating_sub(20 * SECOND);
    let (hit, answer) = hits(&cache, &request()).await;
    assert!(hit && matches!(answer, Claim::Completed { remaining, .. } if remaining == left));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_an_operator_forgets_is_known_for_a_minute_at_most() {
    let cache = cache();
    done(&cache, &request()).await;
    forget(&cache, &request().key);
    advance(59 * SECOND).await;
    assert!(hits(&cache, &request()).await.0);
    advance(SECOND).await;
    acquire(&cache, &request()).await;
}

#[tokio::test(start_paused = true)]
async fn a_hit_does_not_prolong_what_is_known() {
    let cache = cache();
    done(&cache, &request()).await;
    for _ in 0..5 {
        advance(11_999 * MILLISECOND).await;
        assert!(hits(&cache, &request()).await.0);
    }
    advance(5 * MILLISECOND).await;
    assert!(!hits(&cache, &request()).await.0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_known_beyond_the_retention() {
    let cache = cache();
    let lease = acquire(&cache, &request()).await;
    complete(&cache, &lease, "done", 10 * SECOND).await;
    advance(10 * SECOND).await;
    acquire(&cache, &request()).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_is_known_for_the_time_that_was_set_and_never_beyond_its_retention() {
    let retention = Policy::DEFAULT.retention();
    for (set, known) in [
        (5 * SECOND, 5 * SECOND),
        (600 * SECOND, 600 * SECOND),
        (Duration::MAX, retention),
    ] {
        let cache = Cached::builder(MemoryStore::new()).longest(set).build();
        done(&cache, &request()).await;
        advance(known.saturating_sub(MILLISECOND)).await;
        assert!(hits(&cache, &request()).await.0, "{set:?}");
        advance(MILLISECOND).await;
        assert!(!hits(&cache, &request()).await.0, "{set:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_completed_keys_are_known() {
    for reason in [
        None,
        Some(Release::failed("x")),
        Some(Release::retry_after(SECOND, "x")),
        Some(Release::Abandoned),
        Some(Release::gave_up("x")),
        Some(Release::Quarantined),
    ] {
        let cache = cache();
        let lease = acquire(&cache, &request()).await;
        if let Some(reason) = &reason {
            let _ = cache.release(&lease, reason).await.unwrap();
        }
        let _ = cache.claim(&request()).await.unwrap();
        let _ = cache.claim(&request()).await.unwrap();
        assert_eq!(cache.stats().hits(), 0, "{reason:?}");
    }
}

type Is = fn(&Claim) -> bool;

/// The content of the completion, that of the claim, whether it is a hit, and the answer.
#[tokio::test(start_paused = true)]
async fn other_content_is_never_a_duplicate_by_the_cache() {
    let completed = |claim: &Claim| matches!(claim, Claim::Completed { .. });
    let reused = |claim: &Claim| matches!(claim, Claim::KeyReused);
    let table: [(Option<&str>, Option<&str>, bool, Is); 5] = [
        (Some("a"), Some("a"), true, completed),
        (Some("a"), Some("b"), false, reused),
        (Some("a"), None, true, completed),
        (None, None, true, completed),
        (None, Some("a"), false, completed),
    ];
    for (first, second, is_hit, expected) in table {
        let cache = cache();
        let with = |content: Option<&str>| content.map_or_else(request, of);
        done(&cache, &with(first)).await;
        let (hit, answer) = hits(&cache, &with(second)).await;
        assert_eq!(hit, is_hit, "{first:?}, then {second:?}");
        assert!(expected(&answer), "{first:?}, then {second:?}: {answer:?}");
    }
}

/// The store keeps the content of the first claim.
#[tokio::test(start_paused = true)]
async fn the_content_of_a_claim_is_known_for_as_long_as_it_is_held() {
    let cache = cache();
    let first = of("a");
    let lease = acquire(&cache, &first).await;
    assert_eq!(
        cache.extend(&lease, 600 * SECOND).await.unwrap(),
        Write::Applied
    );
    advance(300 * SECOND).await;
    let again = ClaimRequest {
        fingerprint: of("b").fingerprint,
        ..first
    };
    assert_eq!(acquire(&cache, &again).await, lease);
    complete(&cache, &lease, "done", Policy::DEFAULT.retention()).await;
    assert_eq!(hits(&cache, &of("b")).await, (false, Claim::KeyReused));
}

#[tokio::test(start_paused = true)]
async fn content_is_learnt_from_the_answer_to_it() {
    let first = cache();
    done(&first, &of("a")).await;
    let second = another(&first);
    assert!(!hits(&second, &request()).await.0);
    assert!(
        !hits(&second, &of("a")).await.0,
        "its content is not known yet"
    );
    assert!(hits(&second, &of("a")).await.0);
    assert_eq!(hits(&second, &of("b")).await, (false, Claim::KeyReused));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_the_store_says_is_held_is_known_no_longer() {
    let cache = cache();
    done(&cache, &of("a")).await;
    forget(&cache, &request().key);
    acquire(&another(&cache), &of("b")).await;
    let (_, answer) = hits(&cache, &of("b")).await;
    assert!(matches!(answer, Claim::Held { .. }), "{answer:?}");
    let (hit, answer) = hits(&cache, &of("a")).await;
    assert!(!hit && matches!(answer, Claim::Held { .. }), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_the_stores_to_decide() {
    let cache = cache();
    done(&cache, &request()).await;
    forget(&cache, &request().key);
    let lookups = cache.stats().lookups();
    acquire(&cache, &request().replay(true)).await;
    assert_eq!(cache.stats().lookups(), lookups);
    let (hit, answer) = hits(&cache, &request()).await;
    assert!(
        !hit && matches!(answer, Claim::Held { .. }),
        "the replay runs"
    );
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_is_sent_again_is_not_learnt_from() {
    let cache = cache();
    let lease = acquire(&cache, &request()).await;
    // As if the answer had been lost on the way through another handle.
    let outcome = Outcome::new("first");
    let first = cache.store().complete(&lease, &outcome, SECOND).await;
    assert_eq!(first.unwrap(), Write::Applied);
    cache.0.known.completing(&lease);
    complete(&cache, &lease, "second", 100 * SECOND).await;
    let (hit, answer) = hits(&cache, &request()).await;
    assert!(
        !hit && matches!(answer, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"first")
    );
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_fenced_is_not_learnt_from() {
    let cache = cache();
    let zombie = acquire(&cache, &request()).await;
    advance(Policy::DEFAULT.lease()).await;
    acquire(&another(&cache), &request()).await;
    let late = cache.complete(&zombie, &Outcome::default(), SECOND).await;
    assert_eq!(late.unwrap(), Write::Fenced);
    let (hit, answer) = hits(&cache, &request()).await;
    assert!(!hit && matches!(answer, Claim::Held { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_is_too_large_is_left_to_the_store() {
    let cache = Cached::builder(MemoryStore::new())
        .capacity(64 * 100)
        .build();
    for (size, is_hit) in [(100, true), (101, false)] {
        let request = ClaimRequest::new(Key::new("size", size).unwrap(), &Policy::DEFAULT);
        let lease = acquire(&cache, &request).await;
        complete(&cache, &lease, &"x".repeat(size), SECOND).await;
        for _ in 0..2 {
            assert_eq!(hits(&cache, &request).await.0, is_hit, "{size}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_what_was_used_last_stays() {
    let cache = Cached::builder(MemoryStore::new())
        .capacity(100 * 300)
        .build();
    for number in 0..1000 {
        let request = ClaimRequest::new(Key::new("many", number).unwrap(), &Policy::DEFAULT);
        done(&cache, &request).await;
    }
    let known = |number: u32| {
        let request = ClaimRequest::new(Key::new("many", number).unwrap(), &Policy::DEFAULT);
        let cache = cache.clone();
        async move { hits(&cache, &request).await.0 }
    };
    assert!(known(999).await);
    assert!(!known(0).await);
}

#[tokio::test(start_paused = true)]
async fn what_a_session_says_is_never_answered_from_memory() {
    use crate::{
        message::SessionPlace,
        store::{OpenSession, SessionStore},
    };

    let here = cache();
    let elsewhere = here.store().clone();
    let session = Key::new("leases", "c-1").unwrap();
    let opening = OpenSession::new(session.clone());
    here.open(&opening).await.unwrap();
    let request = |number, awaited| {
        let place = SessionPlace::new(session.clone(), number, awaited);
        ClaimRequest::in_session(place, &Policy::DEFAULT)
    };
    let lease = acquire(&here, &request(0, 0)).await;
    complete(&here, &lease, "done", SECOND).await;
    let answer = here.claim(&request(0, 0)).await.unwrap();
    assert!(matches!(answer, Claim::Completed { .. }), "{answer:?}");
    // Another process hears that the client awaits no more.
    elsewhere.claim(&request(1, 1)).await.unwrap();
    assert_eq!(
        here.claim(&request(0, 0)).await.unwrap(),
        Claim::OutOfPlace(OutOfPlace::Stale)
    );
    elsewhere.close(&session.clone().into()).await.unwrap();
    let answer = here.claim(&request(1, 1)).await.unwrap();
    assert_eq!(answer, Claim::OutOfPlace(OutOfPlace::SessionExpired));
    assert_eq!(here.stats().lookups, 0);
}
