//! What is left of a key that an operator has changed through its cache.

use super::*;
use crate::store::Look as _;
use crate::store::operator::{Intervened, Intervention, OperatorStore};

async fn change(
    cache: &Cache,
    change: impl FnOnce(Option<crate::store::operator::Seen>) -> Intervention,
) {
    let known = cache.look(&request().key).await.unwrap();
    let seen = known.map(|known| known.record.seen());
    let intervened = cache.intervene(&change(seen)).await.unwrap();
    assert_eq!(intervened, Intervened::Applied);
}

async fn forgotten(cache: &Cache) {
    let key = request().key;
    change(cache, |seen| {
        Intervention::forget(key, seen, "operator@ops-1")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_forgotten_through_the_cache_runs_again_at_once() {
    let cache = cache();
    done(&cache, &request()).await;
    assert!(hits(&cache, &request()).await.0);
    forgotten(&cache).await;
    let lease = acquire(&cache, &request()).await;
    complete(&cache, &lease, "done again", Policy::DEFAULT.retention()).await;
    let (hit, answer) = hits(&cache, &request()).await;
    let Claim::Completed { outcome, .. } = answer else {
        panic!("{answer:?}");
    };
    assert!(hit && outcome.as_bytes() == b"done again");
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_completes_is_answered_with_the_operators_outcome() {
    let cache = cache();
    let lease = acquire(&cache, &request()).await;
    let (key, outcome) = (request().key, Outcome::new("by hand"));
    let retention = Policy::DEFAULT.retention();
    change(&cache, |seen| {
        Intervention::complete(key, seen, "operator@ops-1", outcome, retention)
    })
    .await;
    let late = Outcome::new("too late");
    let written = cache.complete(&lease, &late, retention).await;
    assert_eq!(written.unwrap(), Write::Fenced);
    let (_, answer) = hits(&cache, &request()).await;
    assert!(matches!(answer, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"by hand"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_asked_for_before_a_change_and_comes_after_it_is_not_remembered() {
    let cache = cache();
    let asked = cache.0.known.now();
    done(&cache, &request()).await;
    let answer = cache.store().claim(&request()).await.unwrap();
    assert!(matches!(answer, Claim::Completed { .. }));
    forgotten(&cache).await;
    cache.0.known.learn(&request(), &answer, asked);
    acquire(&cache, &request()).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_very_late_is_not_remembered_when_the_change_is_no_longer_kept_in_mind()
 {
    let cache = Cached::builder(MemoryStore::new())
        .longest(Duration::MAX)
        .build();
    let asked = cache.0.known.now();
    done(&cache, &request()).await;
    let answer = cache.store().claim(&request()).await.unwrap();
    forgotten(&cache).await;
    advance(60 * SECOND).await;
    cache.0.known.learn(&request(), &answer, asked);
    acquire(&cache, &request()).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_next_claim_is_not_remembered_either() {
    let cache = cache();
    let asked = cache.0.known.now();
    done(&cache, &request()).await;
    let answer = cache.store().claim(&request()).await.unwrap();
    forgotten(&cache).await;
    advance(MILLISECOND).await;
    let lease = acquire(&cache, &request()).await;
    cache.0.known.learn(&request(), &answer, asked);
    let failed = cache.release(&lease, &Release::failed("no")).await;
    assert_eq!(failed.unwrap(), Write::Applied);
    acquire(&cache, &request()).await;
}
