use futures_util::future::join_all;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::store::{Release, TransactionalStore};

/// Lets a lane begin its batch behind a lock, so that whatever comes next has to queue.
async fn hold_the_table(database: &Database) -> PgConnection {
    let mut bystander = database.bystander().await;
    run(
        &mut bystander,
        "BEGIN; LOCK TABLE idem_records IN ACCESS EXCLUSIVE MODE",
    )
    .await;
    bystander
}

fn claim_later(
    store: &PostgresStore,
    request: ClaimRequest,
) -> JoinHandle<Result<Claim, StoreError>> {
    let store = store.clone();
    tokio::spawn(async move { store.claim(&request).await })
}

/// How many transactions have written the rows that there are.
async fn transactions(database: &Database) -> i64 {
    database
        .number("SELECT count(DISTINCT xmin::text) FROM idem_records")
        .await
}

#[tokio::test]
async fn calls_that_queue_share_a_statement() {
    let database = Database::new();
    let store = database.store().await;
    let leases = join_all((0..500_u32).map(|id| acquire(&store, id))).await;
    let claiming = transactions(&database).await;
    assert!((2..=6).contains(&claiming), "{claiming} transactions");
    join_all(leases.iter().map(|lease| complete(&store, lease))).await;
    let completing = transactions(&database).await;
    assert!((2..=6).contains(&completing), "{completing} transactions");
}

#[tokio::test]
async fn claims_of_one_key_in_one_batch_go_to_one() {
    let database = Database::new();
    let store = database.store().await;
    let answers = join_all((0..50).map(|_| async { store.claim(&request("a")).await })).await;
    let acquired = answers
        .iter()
        .filter(|answer| matches!(answer, Ok(Claim::Acquired(_))))
        .count();
    let held = answers.iter().filter(|answer| is_held(answer)).count();
    assert_eq!((acquired, held), (1, 49));
}

#[tokio::test]
async fn a_claim_that_is_repeated_in_one_batch_gets_one_lease() {
    let database = Database::new();
    let store = database.store().await;
    let request = request("a");
    let answers = join_all((0..5).map(|_| store.claim(&request))).await;
    let first = answers[0].as_ref().unwrap();
    assert!(matches!(first, Claim::Acquired(_)), "{first:?}");
    for answer in &answers {
        assert_eq!(answer.as_ref().unwrap(), first);
    }
}

#[tokio::test]
async fn writes_of_one_lease_in_one_batch_are_carried_out_in_order() {
    let database = Database::new();
    alike::writes_of_one_lease_are_carried_out_in_order(&database.store().await).await;
}

#[tokio::test]
async fn a_row_that_the_database_refuses_fails_its_own_caller_only() {
    let database = Database::new();
    let store = database.store().await;
    database
        .run("ALTER TABLE idem_records ADD CHECK (key <> 'orders:66' AND outcome <> 'bad')")
        .await;
    let leases = join_all((0..100_u32).map(|id| {
        let store = store.clone();
        async move { (id, store.claim(&request(id)).await) }
    }));
    let mut acquired = Vec::new();
    for (id, answer) in leases.await {
        match answer {
            Ok(Claim::Acquired(lease)) => acquired.push(lease),
            Err(StoreError::Corrupt { key, .. }) => assert_eq!((&*key, id), ("orders:66", 66)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(acquired.len(), 99);

    let written = join_all(acquired.iter().enumerate().map(|(at, lease)| {
        let outcome = Outcome::new(if at == 7 { "bad" } else { "good" });
        let store = store.clone();
        async move { store.complete(lease, &outcome, MINUTE).await }
    }));
    for (at, answer) in written.await.into_iter().enumerate() {
        match answer {
            Ok(Write::Applied) => assert_ne!(at, 7),
            Err(StoreError::Corrupt { .. }) => assert_eq!(at, 7),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_corrupt_record_fails_its_own_caller_only() {
    let database = Database::new();
    let store = database.store().await;
    acquire(&store, "bad").await;
    database
        .run("UPDATE idem_records SET state = 'mended'")
        .await;
    let calls = ["before", "bad", "after"].map(|id| {
        let store = store.clone();
        async move { store.claim(&request(id)).await }
    });
    let answers = join_all(calls).await;
    alike::only_the_second_is_corrupt(&answers);
}

#[tokio::test]
async fn a_claim_whose_caller_has_gone_is_not_sent() {
    let database = Database::new();
    let store = database.store().await;
    let lock = hold_the_table(&database).await;
    let first = claim_later(&store, request("first"));
    database.sessions_wait(1).await;
    let dropped = claim_later(&store, request("dropped"));
    let kept = claim_later(&store, request("kept"));
    yield_now().await;
    dropped.abort();
    yield_now().await;
    drop(lock);
    for call in [first, kept] {
        assert!(matches!(call.await.unwrap(), Ok(Claim::Acquired(_))));
    }
    let records = "SELECT count(*) FROM idem_records WHERE key = 'orders:dropped'";
    assert_eq!(database.number(records).await, 0);
}

#[tokio::test]
async fn a_look_at_a_completed_or_held_key_writes_nothing() {
    let database = Database::new();
    let store = database.store().await;
    acquire(&store, "held").await;
    let done = acquire(&store, "done").await;
    complete(&store, &done).await;
    // A lock on a row would show here.
    database.run("VACUUM FREEZE idem_records").await;
    for id in ["held", "done"] {
        let claim = store.claim(&request(id)).await.unwrap();
        assert!(!matches!(claim, Claim::Acquired(_)), "{claim:?}");
    }
    let locks = database
        .number("SELECT count(*) FROM idem_records WHERE xmax::text <> '0'")
        .await;
    assert_eq!(locks, 0);
}

#[tokio::test]
async fn a_row_that_somebody_keeps_locked_fails_its_own_callers_only() {
    let database = Database::new();
    let store = database.store().await;
    let (a, b) = (acquire(&store, "a").await, acquire(&store, "b").await);
    let mut bystander = database.bystander().await;
    let lock = "BEGIN; SELECT FROM idem_records WHERE key = 'orders:a' FOR UPDATE";
    run(&mut bystander, lock).await;
    let (extended, ()) = tokio::join!(store.extend(&a, MINUTE), complete(&store, &b));
    assert_matches!(extended, Err(StoreError::Unavailable(_)));
    store.advance(2 * MINUTE);
    let overdue = request("a");
    let (claim, _) = tokio::join!(store.claim(&overdue), acquire(&store, "c"));
    assert_matches!(claim, Err(StoreError::Unavailable(_)));
    drop(bystander);
    acquire(&store, "a").await;
}

#[tokio::test]
async fn large_outcomes_are_not_all_sent_at_once() {
    let database = Database::new();
    let store = database.store().await;
    let leases = join_all((0..10_u32).map(|id| acquire(&store, id))).await;
    let lock = hold_the_table(&database).await;
    let large = vec![b'x'; 1 << 20];
    let completions: Vec<_> = leases
        .into_iter()
        .map(|lease| {
            let (store, outcome) = (store.clone(), Outcome::new(large.clone()));
            tokio::spawn(async move { store.complete(&lease, &outcome, MINUTE).await })
        })
        .collect();
    database.sessions_wait(1).await;
    drop(lock);
    for completion in completions {
        assert_eq!(completion.await.unwrap().unwrap(), Write::Applied);
    }
    // One alone or the first few, then three at a time.
    let completing = transactions(&database).await;
    assert!((4..=5).contains(&completing), "{completing} transactions");
}

/// A worker has as many of these as deliveries in its hands: what a statement, a connection or a session
/// takes is not part of each.
#[tokio::test]
async fn whoever_waits_takes_little_memory() {
    let store = Database::new().store().await;
    let (request, lease) = (request("o-1"), acquire(&store, "o-2").await);
    let (outcome, reason) = (Outcome::default(), Release::Abandoned);
    let sizes = [
        size_of_val(&store.claim(&request)),
        size_of_val(&store.complete(&lease, &outcome, MINUTE)),
        size_of_val(&store.release(&lease, &reason)),
        size_of_val(&TransactionalStore::<PgConnection>::begin(&store, &request)),
    ];
    assert!(sizes.iter().all(|&bytes| bytes < 4096), "{sizes:?} bytes");
}
