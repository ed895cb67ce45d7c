use futures_util::future::join_all;

use super::*;
use crate::stores::tests::acquire_as;

#[tokio::test]
async fn updates_touch_no_index() {
    let database = Database::new();
    let store = database.store().await;
    for round in 0..4_u32 {
        let claims = (0..256_u32).map(|id| acquire(&store, format!("{round}-{id}")));
        let leases = join_all(claims).await;
        join_all(leases.iter().map(|lease| complete(&store, lease))).await;
    }
    // Its sessions report what they have done when they end.
    drop(store);
    let updates = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'idem_records'";
    while database.number(updates).await < 1024 {
        tokio::task::yield_now().await;
    }
    let hot = "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idem_records'";
    let hot = database.number(hot).await;
    assert!(hot > 920, "{hot} of 1024");
}

/// When a purge looks at a row is written anew only where it would be more than an hour too early, or too late.
#[tokio::test]
async fn a_completion_keeps_the_time_of_its_purge_where_that_still_does() {
    let database = Database::new();
    let store = database.store().await;
    let purge_after =
        "SELECT (extract(epoch FROM purge_after) * 1000000)::bigint FROM idem_records";
    let forget_at = "SELECT (extract(epoch FROM forget_at) * 1000000)::bigint FROM idem_records";
    for (retention, is_kept) in [(30 * MINUTE, true), (120 * MINUTE, false), (MINUTE, false)] {
        let lease = acquire(&store, "a").await;
        let before = database.number(purge_after).await;
        let outcome = Outcome::new("done");
        let written = store.complete(&lease, &outcome, retention).await;
        assert_eq!(written.unwrap(), Write::Applied);
        let (after, end) = (
            database.number(purge_after).await,
            database.number(forget_at).await,
        );
        assert!(after == if is_kept { before } else { end }, "{retention:?}");
        database.run("DELETE FROM idem_records").await;
    }
}

/// So does a claim of a key that has a record.
#[tokio::test]
async fn a_claim_keeps_the_time_of_its_purge_where_that_still_does() {
    let database = Database::new();
    let store = database.store().await;
    let purge_after =
        "SELECT (extract(epoch FROM purge_after) * 1000000)::bigint FROM idem_records";
    let retained =
        "SELECT (extract(epoch FROM updated_at) * 1000000)::bigint + retention FROM idem_records";
    let claim = async |retention| {
        let request = ClaimRequest {
            retention,
            ..request("a")
        };
        acquire_as(&store, &request).await
    };
    for (retention, is_kept) in [(100 * MINUTE, true), (300 * MINUTE, false), (MINUTE, false)] {
        let lease = claim(90 * MINUTE).await;
        let before = database.number(purge_after).await;
        let released = store.release(&lease, &Release::failed("down")).await;
        assert_eq!(released.unwrap(), Write::Applied);
        claim(retention).await;
        let (after, anew) = (
            database.number(purge_after).await,
            database.number(retained).await,
        );
        assert_eq!(after, if is_kept { before } else { anew }, "{retention:?}");
        database.run("DELETE FROM idem_records").await;
    }
}

/// People read the row, too.
#[tokio::test]
async fn only_a_delayed_release_says_when_the_key_is_free() {
    let database = Database::new();
    let store = database.store().await;
    let delayed = "SELECT count(not_before) FROM idem_records";
    let lease = acquire(&store, "a").await;
    let extended = store.extend(&lease, MINUTE).await;
    assert_eq!(extended.unwrap(), Write::Applied);
    assert_eq!(database.number(delayed).await, 0, "extended");
    complete(&store, &lease).await;
    assert_eq!(database.number(delayed).await, 0, "completed");
    for (delay, says) in [(Duration::ZERO, 0), (Duration::from_micros(1), 1)] {
        database.run("DELETE FROM idem_records").await;
        let lease = acquire(&store, "a").await;
        let release = Release::retry_after(delay, "down");
        let released = store.release(&lease, &release).await;
        assert_eq!(released.unwrap(), Write::Applied);
        assert_eq!(database.number(delayed).await, says, "released, {delay:?}");
    }
}

#[tokio::test]
async fn the_row_says_the_retention_of_the_completion_and_not_of_the_claim() {
    let database = Database::new();
    let store = database.store().await;
    let retention = "SELECT retention FROM idem_records";
    let lease = acquire(&store, "a").await;
    assert_eq!(database.number(retention).await, 600_000_000);
    let written = store.complete(&lease, &Outcome::new("done"), MINUTE).await;
    assert_eq!(written.unwrap(), Write::Applied);
    assert_eq!(database.number(retention).await, 60_000_000);
}

/// A replay is claimed by the statement that takes over.
#[tokio::test]
async fn a_replay_of_a_new_key_has_the_times_of_a_claim() {
    let database = Database::new();
    let store = database.store().await;
    let times = "SELECT count(*) FROM idem_records
                 WHERE forget_at = lease_ends + retention * interval '1 microsecond'
                     AND purge_after = updated_at + retention * interval '1 microsecond'";
    acquire(&store, "a").await;
    assert_eq!(database.number(times).await, 1);
    acquire_as(&store, &request("b").replay(true)).await;
    assert_eq!(database.number(times).await, 2);
}

/// A sequence is set back where a dump is restored without it, or by hand.
#[tokio::test]
async fn a_token_grows_also_where_the_servers_sequence_was_set_back() {
    let database = Database::new();
    let store = database.store().await;
    database
        .run("SELECT setval('idem_records_token', 1000)")
        .await;
    let lost = acquire(&store, "a").await;
    database.run("SELECT setval('idem_records_token', 1)").await;
    store.advance(60 * MINUTE);
    let lease = acquire(&store, "a").await;
    assert!(lease.token > lost.token, "{lost:?}, then {lease:?}");
    let late = store.complete(&lost, &Outcome::new("late"), MINUTE).await;
    assert_eq!(late.unwrap(), Write::Fenced);
}

#[tokio::test]
async fn a_lease_of_an_open_transaction_counts() {
    let database = Database::new();
    let store = database.store().await;
    acquire(&store, "a").await;
    database
        .run(
            "INSERT INTO idem_records_open
             SELECT key, token, lease_ends + interval '1 hour' FROM idem_records",
        )
        .await;
    store.advance(30 * MINUTE);
    // A replay is claimed by the statement that takes over; other claims only read the record here.
    for claim in [request("a"), request("a").replay(true)] {
        let Claim::Held { remaining } = store.claim(&claim).await.unwrap() else {
            panic!("its transaction is open: {claim:?}")
        };
        assert!(remaining > 25 * MINUTE, "{remaining:?}");
    }
    assert_eq!(store.purge(10).await.unwrap(), 0);

    store.advance(35 * MINUTE);
    assert_eq!(store.purge(10).await.unwrap(), 0);
    let lease = acquire(&store, "a").await;
    assert!(lease.in_doubt);
}

#[tokio::test]
async fn a_lease_of_a_closed_transaction_does_not_count_and_is_purged() {
    let database = Database::new();
    let store = database.store().await;
    let lease = acquire(&store, "a").await;
    database
        .run(
            "INSERT INTO idem_records_open
             SELECT key, token - 1, lease_ends + interval '1 hour' FROM idem_records",
        )
        .await;
    store.advance(2 * MINUTE);
    let next = acquire(&store, "a").await;
    assert_eq!((next.attempt, next.in_doubt), (lease.attempt + 1, true));
    assert_eq!(store.purge(10).await.unwrap(), 0);
    let open = "SELECT count(*) FROM idem_records_open";
    assert_eq!(database.number(open).await, 1);
    store.advance(65 * MINUTE);
    assert_eq!(store.purge(10).await.unwrap(), 1);
    assert_eq!(database.number(open).await, 0);
}

#[tokio::test]
async fn a_purge_leaves_what_another_one_is_removing() {
    let database = Database::new();
    let store = database.store().await;
    for id in ["a", "b"] {
        let lease = acquire(&store, id).await;
        complete(&store, &lease).await;
    }
    store.advance(11 * MINUTE);
    let mut bystander = database.bystander().await;
    let lock = "BEGIN; SELECT FROM idem_records WHERE key = 'orders:a' FOR UPDATE";
    run(&mut bystander, lock).await;
    assert_eq!(store.purge(10).await.unwrap(), 1);
    drop(bystander);
    let left = "SELECT count(*) FROM idem_records WHERE key = 'orders:a'";
    assert_eq!(database.number(left).await, 1);
}

#[tokio::test]
async fn a_plan_is_not_kept_for_long() {
    let database = Database::new();
    let store = database.store().await;
    let mut link = Link::new(store.address.clone());
    let mut planned = async || {
        let planned = "SELECT prepare_time::text FROM pg_prepared_statements";
        let rows = link.fetch(|| sqlx::query(planned)).await.unwrap();
        rows[0].get::<String, _>(0)
    };
    let first = planned().await;
    assert_eq!(planned().await, first);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert_ne!(planned().await, first);
}

/// The index holds what was removed for as long as a transaction may see it.
#[tokio::test]
async fn a_purge_does_not_read_what_was_removed_before() {
    let database = Database::new();
    let store = database.store().await;
    let mut bystander = database.bystander().await;
    let records = "INSERT INTO idem_records
         (key, state, attempts, in_doubt, token, retention, updated_at, forget_at, purge_after, owner)
         SELECT 'orders:' || n, 'completed', 1, false, n, 0, now(), now(), now() - n * interval '1 ms', ''
         FROM generate_series(1, 5000) AS n";
    run(&mut bystander, records).await;
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM idem_records";
    run(&mut bystander, hold).await;
    for _ in 0..50 {
        assert_eq!(store.purge(100).await.unwrap(), 100);
    }
    assert_eq!(store.purge(100).await.unwrap(), 0);
    // A session that ends tells what it has read.
    drop(store);
    let read = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes
         WHERE indexrelname = 'idem_records_purge_after'";
    let mut entries = 0;
    while entries < 5_000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        entries = database.number(read).await;
    }
    assert!(
        entries < 10_000,
        "{entries} entries were read for 5,000 records"
    );
}
