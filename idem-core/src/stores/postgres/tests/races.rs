use super::*;

/// A copy of the record of `a`, in a transaction that is still open.
const BEGIN_B: &str = "BEGIN;
    CREATE TEMP TABLE copy AS SELECT * FROM idem_records WHERE key = 'orders:a';
    UPDATE copy SET key = 'orders:b';
    INSERT INTO idem_records SELECT * FROM copy";

/// A claim of `b` that has begun before the record was there to be seen, and goes on afterwards.
async fn claim_meanwhile(complete_a: bool, end: &str) -> Claim {
    let database = Database::new();
    let store = database.store().await;
    let lease = acquire(&store, "a").await;
    if complete_a {
        complete(&store, &lease).await;
    }
    let mut bystander = database.bystander().await;
    run(&mut bystander, BEGIN_B).await;
    let claim = {
        let store = store.clone();
        tokio::spawn(async move { store.claim(&request("b")).await })
    };
    database.sessions_wait(1).await;
    run(&mut bystander, end).await;
    claim.await.unwrap().unwrap()
}

#[tokio::test]
async fn a_claim_that_was_overtaken_by_another_is_held() {
    let claim = claim_meanwhile(false, "COMMIT").await;
    assert!(matches!(claim, Claim::Held { .. }), "{claim:?}");
}

#[tokio::test]
async fn a_claim_that_was_overtaken_by_a_completion_is_told_so() {
    let claim = claim_meanwhile(true, "COMMIT").await;
    assert!(matches!(claim, Claim::Completed { .. }), "{claim:?}");
}

#[tokio::test]
async fn a_claim_is_told_nothing_that_rolls_back() {
    let claim = claim_meanwhile(true, "ROLLBACK").await;
    assert!(matches!(claim, Claim::Acquired(_)), "{claim:?}");
}

/// Each locks the other's row first, so one of them is the victim of the deadlock.
#[tokio::test]
async fn a_batch_that_a_deadlock_has_ended_is_sent_again() {
    let database = Database::new();
    let store = database.store().await;
    let (a, b) = (acquire(&store, "a").await, acquire(&store, "b").await);
    let mut bystander = database.bystander().await;
    let lock = "SELECT FROM idem_records WHERE key = 'orders:b' FOR UPDATE";
    // The server looks for deadlocks from the session that waits for longer: the lane's.
    run(
        &mut bystander,
        &format!("SET deadlock_timeout = '1min'; BEGIN; {lock}"),
    )
    .await;
    let written = {
        let store = store.clone();
        tokio::spawn(async move { tokio::join!(complete(&store, &a), complete(&store, &b)) })
    };
    database.sessions_wait(1).await;
    run(
        &mut bystander,
        "SELECT FROM idem_records WHERE key = 'orders:a' FOR UPDATE; COMMIT",
    )
    .await;
    written.await.unwrap();
}

#[tokio::test]
async fn an_owner_that_was_not_told_has_its_lease_again() {
    let database = Database::new();
    let (one, other) = (database.store().await, database.store().await);
    let request = request("a").owner(Owner::new());
    let first = one.claim(&request).await.unwrap();
    assert_eq!(other.claim(&request).await.unwrap(), first);
}

/// The lease's end by the server's clock, in microseconds.
async fn lease_ends(database: &Database, key: &'static str) -> i64 {
    let ends = "SELECT (extract(epoch FROM lease_ends) * 1000000)::bigint
                FROM idem_records WHERE key = $1";
    let mut bystander = database.bystander().await;
    sqlx::query_scalar(ends)
        .bind(key)
        .fetch_one(&mut bystander)
        .await
        .unwrap()
}

#[tokio::test]
async fn an_extension_that_is_carried_out_late_does_not_shorten_a_later_one() {
    let database = Database::new();
    let (store, other) = (database.store().await, database.store().await);
    let (a, b) = (acquire(&store, "a").await, acquire(&store, "b").await);
    let mut bystander = database.bystander().await;
    let lock = "BEGIN; SELECT FROM idem_records WHERE key = 'orders:a' FOR UPDATE";
    run(&mut bystander, lock).await;
    let late = {
        let (store, b) = (store.clone(), b.clone());
        tokio::spawn(
            async move { tokio::join!(store.extend(&a, MINUTE), store.extend(&b, MINUTE)) },
        )
    };
    database.sessions_wait(1).await;
    assert_eq!(other.extend(&b, MINUTE).await.unwrap(), Write::Applied);
    let before = lease_ends(&database, "orders:b").await;
    drop(bystander);
    let (_, extended) = late.await.unwrap();
    assert_eq!(extended.unwrap(), Write::Applied);
    assert!(lease_ends(&database, "orders:b").await >= before);
}

/// As by a completion that waits for its commit.
#[tokio::test]
async fn a_claim_does_not_wait_for_whoever_writes_the_record() {
    let database = Database::new();
    let store = database.store().await;
    acquire(&store, "a").await;
    let mut bystander = database.bystander().await;
    let write = "BEGIN; UPDATE idem_records SET state = 'completed' WHERE key = 'orders:a'";
    run(&mut bystander, write).await;
    // A replay is claimed by the statement that takes over. One after the other: in a batch the first call of a key
    // decides.
    for (a, beside) in [(request("a"), "b"), (request("a").replay(true), "c")] {
        let beside = request(beside);
        let claims = async { tokio::join!(store.claim(&a), store.claim(&beside)) };
        let patience = Duration::from_millis(900);
        let (held, acquired) = tokio::time::timeout(patience, claims).await.unwrap();
        assert!(matches!(held, Ok(Claim::Held { .. })), "{held:?}");
        assert!(matches!(acquired, Ok(Claim::Acquired(_))), "{acquired:?}");
    }
}
