//! A server that is there and takes no writes for now is away: whoever asks it asks again, until it takes them.

use idem_servers::redis::NoWrites;

use super::*;

/// How the server says it, in the words of the store's error.
fn said_of(why: NoWrites) -> &'static str {
    match why {
        NoWrites::OutOfMemory => "`maxmemory`",
        NoWrites::CannotSave => "cannot save its data",
        NoWrites::TooFewReplicas => "`min-replicas-to-write`",
        NoWrites::Replica => "is a replica",
        NoWrites::Loading => "still loading",
    }
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_away_until_it_takes_them() {
    let server = Redis::start_to_refuse().unwrap();
    let store = impatient(&server).await;
    for (number, why) in NoWrites::ALL.into_iter().enumerate() {
        let held = acquire(&store, format!("held {number}")).await;
        let asking = request(format!("asked {number}"));
        server.refuse_writes(why).unwrap();
        let outcome = Outcome::new("done");
        for said in [
            unavailable(store.claim(&asking).await),
            unavailable(store.complete(&held, &outcome, MINUTE).await),
            unavailable(store.extend(&held, MINUTE).await),
            unavailable(store.release(&held, &Release::failed("no")).await),
        ] {
            assert!(said.contains(said_of(why)), "{why:?}: {said}");
        }
        server.take_writes(why).unwrap();
        complete(&store, &held).await;
        let lease = acquire_as(&store, &asking).await;
        assert_eq!(lease.attempt, 1, "{why:?}");
    }
}

/// So whoever fails open meanwhile repeats nothing that the server knows.
#[tokio::test]
async fn a_server_that_takes_no_writes_tells_of_duplicates_unless_it_loads() {
    let server = Redis::start_to_refuse().unwrap();
    let store = impatient(&server).await;
    let lease = acquire(&store, 1).await;
    complete(&store, &lease).await;
    let held = acquire(&store, 2).await;
    for why in NoWrites::ALL {
        if why == NoWrites::Loading {
            continue;
        }
        server.refuse_writes(why).unwrap();
        assert!(is_completed(&store, 1).await, "{why:?}");
        let answer = store.claim(&request(2)).await.unwrap();
        assert!(matches!(answer, Claim::Held { .. }), "{why:?}: {answer:?}");
        server.take_writes(why).unwrap();
    }
    complete(&store, &held).await;
}

/// A worker that is started meanwhile waits like one that runs.
#[tokio::test]
async fn a_store_opens_while_its_server_takes_no_writes() {
    let server = Redis::start_to_refuse().unwrap();
    for (number, why) in NoWrites::ALL.into_iter().enumerate() {
        server.refuse_writes(why).unwrap();
        let store = impatient(&server).await;
        let asking = request(format!("asked {number}"));
        unavailable(store.claim(&asking).await);
        server.take_writes(why).unwrap();
        let lease = acquire_as(&store, &asking).await;
        complete(&store, &lease).await;
    }
}
