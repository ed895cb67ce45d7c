use super::*;
use crate::store::{OutOfPlace, SessionStore, Touched};
use crate::stores::tests::{asks_in, open};

const END_ALL: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                       WHERE datname = current_database() AND application_name = 'idem'";

async fn works(store: &PostgresStore, request: &ClaimRequest) -> Lease {
    let lease = match store.claim(request).await.unwrap() {
        Claim::Acquired(lease) => lease,
        other => panic!("{other:?}"),
    };
    complete(store, &lease).await;
    lease
}

/// A session that somebody keeps locked is unavailable, for a while; others are not.
#[tokio::test]
async fn a_session_that_is_locked_is_unavailable_and_no_other_is() {
    let database = Database::new();
    let store = database.store().await;
    let [locked, free] = [open(&store, "locked").await, open(&store, "free").await];
    let mut bystander = database.bystander().await;
    run(
        &mut bystander,
        "BEGIN; SELECT FROM idem_records_sessions WHERE key = 'leases:locked' FOR UPDATE",
    )
    .await;
    let claim = store.claim(&asks_in(&locked, 0, 0)).await;
    assert_matches!(claim, Err(StoreError::Unavailable(_)));
    let touched = store.touch(&locked).await;
    assert_matches!(touched, Err(StoreError::Unavailable(_)));
    works(&store, &asks_in(&free, 0, 0)).await;
    assert_eq!(store.expire(10).await.unwrap(), 0);
    run(&mut bystander, "ROLLBACK").await;
    works(&store, &asks_in(&locked, 0, 0)).await;
    assert_eq!(store.touch(&locked).await.unwrap(), Touched::Living);
}

/// PostgreSQL compiles a statement whose estimated cost is above `jit_above_cost`, which is 100,000 by default. That takes
/// 200 ms, at each run.
#[tokio::test]
async fn the_purge_of_sessions_is_too_cheap_to_be_compiled() {
    let database = Database::new();
    let _tables = database.store().await;
    let explain = concat!("EXPLAIN ", include_str!("../sessions/expire.sql"));
    let plan: Vec<(String,)> = sqlx::query_as(explain)
        .bind(0_i64)
        .bind(100_i64)
        .fetch_all(&mut database.bystander().await)
        .await
        .unwrap();
    let cost = plan[0]
        .0
        .split_once("..")
        .and_then(|(_, rest)| rest.split_once(' '));
    let cost: f64 = cost.unwrap().0.parse().unwrap();
    assert!(cost < 100_000.0, "{plan:#?}");
}

/// Something is the matter with one record; the server is fine, and so are others.
#[tokio::test]
async fn a_record_that_the_server_refuses_is_corrupt_and_nothing_else_is_unavailable() {
    let database = Database::new();
    let store = database.store().await;
    let session = open(&store, "c-1").await;
    database
        .run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE 'not this one'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON idem_records FOR EACH ROW
             WHEN (new.key = 'leases:c-1~1') EXECUTE FUNCTION refuse()",
        )
        .await;
    works(&store, &asks_in(&session, 0, 0)).await;
    match store.claim(&asks_in(&session, 1, 0)).await {
        Err(StoreError::Corrupt { key, source }) => {
            assert_eq!(key, "leases:c-1~1");
            assert!(source.to_string().contains("not this one"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    works(&store, &asks_in(&session, 2, 0)).await;

    database
        .run("ALTER TABLE idem_records_sessions RENAME TO elsewhere")
        .await;
    let claim = store.claim(&asks_in(&session, 3, 0)).await;
    assert_matches!(claim, Err(StoreError::Unavailable(_)));
}

/// A worker has its record in hand: whoever moves the mark neither waits for it nor removes it.
#[tokio::test]
async fn an_answer_that_is_locked_keeps_no_mark_from_moving() {
    let database = Database::new();
    let store = database.store().await;
    let session = open(&store, "c-1").await;
    let in_hand = works(&store, &asks_in(&session, 0, 0)).await;
    let passed = works(&store, &asks_in(&session, 1, 0)).await;
    let mut bystander = database.bystander().await;
    run(
        &mut bystander,
        "BEGIN; SELECT FROM idem_records WHERE key = 'leases:c-1~0' FOR UPDATE",
    )
    .await;
    works(&store, &asks_in(&session, 2, 2)).await;
    let left = "SELECT count(*) FROM idem_records WHERE key IN ('leases:c-1~0', 'leases:c-1~1')";
    assert_eq!(database.number(left).await, 1);
    run(&mut bystander, "ROLLBACK").await;
    assert_eq!(store.extend(&passed, MINUTE).await.unwrap(), Write::Fenced);
    for number in [0, 1] {
        let claim = store.claim(&asks_in(&session, number, 0)).await.unwrap();
        assert_eq!(claim, Claim::OutOfPlace(OutOfPlace::Stale));
    }
    complete(&store, &in_hand).await;
}

/// Each claim is repeated by its own owner, so it has what was committed before its answer was lost.
#[tokio::test]
async fn connections_that_are_ended_cost_no_request_an_error() {
    let database = Database::new();
    let store = database.store().await;
    let session = open(&store, "c-1").await;
    let work = async {
        for number in 0..60 {
            let lease = works(&store, &asks_in(&session, number, number)).await;
            assert_eq!(lease.attempt, 1, "number {number}");
        }
    };
    let mut bystander = database.bystander().await;
    let disturbance = async {
        for _ in 0..5 {
            sqlx::query_scalar::<_, i64>(END_ALL)
                .fetch_one(&mut bystander)
                .await
                .unwrap();
            works(
                &store,
                &asks_in(&open(&store, &format!("{:?}", Owner::new())).await, 0, 0),
            )
            .await;
        }
    };
    tokio::join!(work, disturbance);
}

/// The server's clock steps back: here, by another store whose clock was moved.
#[tokio::test]
async fn a_closed_session_stays_closed_when_the_clock_steps_back() {
    let database = Database::new();
    let (store, later) = (database.store().await, database.store().await);
    later.advance(MINUTE);
    alike::a_closed_session_stays_closed(&store, &later).await;
}

/// A transaction that was dropped half-way holds the session for nobody.
#[tokio::test]
async fn a_claim_that_was_dropped_keeps_no_session_locked() {
    let database = Database::new();
    let patient = PostgresStore::builder(&database.url).response_timeout(5 * MINUTE);
    let store = patient.build().await.unwrap();
    let session = open(&store, "c-1").await;
    let mut bystander = database.bystander().await;
    run(
        &mut bystander,
        "BEGIN; LOCK TABLE idem_records IN ACCESS EXCLUSIVE MODE",
    )
    .await;
    let request = asks_in(&session, 0, 0);
    {
        let claim = store.claim(&request);
        let locks = database.sessions_wait(1);
        tokio::select! {
            biased;
            claim = claim => panic!("the table is locked: {claim:?}"),
            () = locks => {}
        }
    }
    run(&mut bystander, "ROLLBACK").await;
    works(&store, &asks_in(&session, 0, 0).owner(request.owner)).await;
}

/// Tables of a version before sessions: told at the start, not at the first session.
#[tokio::test]
async fn a_missing_table_is_missed_at_the_start() {
    let database = Database::new();
    drop(database.store().await);
    database.run("DROP TABLE idem_records_sessions").await;
    let refused = PostgresStore::connect(&database.url).await;
    let Err(ConnectError::Unavailable(source)) = refused else {
        panic!("{refused:?}")
    };
    let told = source.to_string();
    for part in [
        "lack what this version needs",
        "idem_records_sessions",
        "`idem migrate`",
    ] {
        assert!(told.contains(part), "{told}");
    }
}
