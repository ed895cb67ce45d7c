//! What fails one claim leaves alone those that share its transaction.

use tokio::task::{JoinHandle, yield_now};

use super::*;

fn later(store: &PostgresStore, request: ClaimRequest) -> JoinHandle<Result<Claim, StoreError>> {
    let store = store.clone();
    tokio::spawn(async move { store.claim(&request).await })
}

#[tokio::test]
async fn a_record_that_cannot_be_read_or_written_fails_its_own_claim_only() {
    let database = Database::new();
    let store = database.store().await;
    acquired(claims(&store, [message("d", 0), message("d", 30)]).await);
    database
        .run(
            "UPDATE idem_records SET state = 'elsewhere' WHERE key = 'readings:d~30';
             ALTER TABLE idem_records ADD CHECK (key <> 'readings:d~60')",
        )
        .await;
    let answers = claims(&store, (1..100).map(|number| message("d", number))).await;
    for (number, answer) in (1..100).zip(answers) {
        match answer {
            Ok(Claim::Acquired(_)) => assert!(![30, 60].contains(&number)),
            Err(StoreError::Corrupt { key, .. }) => {
                assert!([30, 60].contains(&number));
                assert_eq!(key, format!("readings:d~{number}"));
            }
            other => panic!("{number}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_sequence_that_cannot_be_read_fails_its_own_claims_only() {
    let database = Database::new();
    let store = database.store().await;
    let all = |number| (0..20).map(move |of| message(&format!("d-{of}"), number));
    acquired(claims(&store, all(0)).await);
    database
        .run("UPDATE idem_records_sequences SET mark = -1 WHERE key = 'readings:d-7'")
        .await;
    for (of, answer) in claims(&store, all(1)).await.into_iter().enumerate() {
        match answer {
            Ok(Claim::Acquired(_)) => assert_ne!(of, 7),
            Err(StoreError::Unavailable(_)) => assert_eq!(of, 7),
            other => panic!("{of}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_sequence_that_somebody_keeps_locked_fails_its_own_claims_only() {
    let database = Database::new();
    let builder = PostgresStore::builder(&database.url);
    let store = builder.response_timeout(Duration::from_secs(3));
    let store = store.build().await.unwrap();
    let all = |number| (0..20).map(move |of| message(&format!("d-{of}"), number));
    acquired(claims(&store, all(0)).await);
    let mut bystander = database.bystander().await;
    run(
        &mut bystander,
        "BEGIN; SELECT FROM idem_records_sequences WHERE key = 'readings:d-2' FOR UPDATE",
    )
    .await;
    for (of, answer) in claims(&store, all(1)).await.into_iter().enumerate() {
        match answer {
            Ok(Claim::Acquired(_)) => assert_ne!(of, 2),
            Err(StoreError::Unavailable(_)) => assert_eq!(of, 2),
            other => panic!("{of}: {other:?}"),
        }
    }
    drop(bystander);
    let again = until_available(&store, "d-2", 1).await;
    assert!(matches!(again, Claim::Acquired(_)), "{again:?}");
}

async fn until_available(store: &PostgresStore, of: &str, number: u64) -> Claim {
    loop {
        match store.claim(&message(of, number)).await {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable(_)) => yield_now().await,
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_caller_that_goes_takes_no_answers_of_others_with_it() {
    let database = Database::new();
    // So long that no statement gives up while the others queue.
    let builder = PostgresStore::builder(&database.url).response_timeout(MINUTE);
    let store = builder.build().await.unwrap();
    acquired(claims(&store, [message("d", 0)]).await);
    let mut lock = database.bystander().await;
    let hold = "BEGIN; LOCK TABLE idem_records_sequences IN ACCESS EXCLUSIVE MODE";
    run(&mut lock, hold).await;
    let first = later(&store, message("d", 1));
    database.sessions_wait(1).await;
    let behind: Vec<_> = (2..50).map(|it| later(&store, message("d", it))).collect();
    let dropped = later(&store, message("d", 50));
    yield_now().await;
    // One whose transaction is under way, and one that waits for the next.
    first.abort();
    dropped.abort();
    yield_now().await;
    drop(lock);
    for call in behind {
        let answer = call.await.unwrap();
        assert!(matches!(answer, Ok(Claim::Acquired(_))), "{answer:?}");
    }
    let records = "SELECT count(*) FROM idem_records WHERE key = 'readings:d~50'";
    assert_eq!(database.number(records).await, 0);
}
