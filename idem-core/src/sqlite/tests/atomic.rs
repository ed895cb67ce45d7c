use sqlx::{Connection, SqliteConnection, SqliteTransaction};

use super::{super::atomic::OpenTransaction, *};
use crate::{Begun, Commit, TransactionalStore};

type Lent = SqliteConnection;

/// A store on a file with a table for the handlers, and what they wrote to it.
struct Shop {
    file: File,
    store: SqliteStore,
}

impl Shop {
    async fn open() -> Self {
        Self::with(|builder| builder).await
    }

    async fn with(options: impl FnOnce(SqliteStoreBuilder) -> SqliteStoreBuilder) -> Self {
        let file = File::new();
        let builder = SqliteStore::builder(file.path()).busy_timeout(Duration::from_millis(500));
        let store = options(builder).build().await.unwrap();
        sqlx::raw_sql(
            "CREATE TABLE charges (id TEXT);
             CREATE TABLE unique_charges (id TEXT UNIQUE);
             CREATE TABLE parents (id TEXT PRIMARY KEY);
             CREATE TABLE children (
                 parent TEXT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED
             );",
        )
        .execute(&mut file.bystander().await)
        .await
        .unwrap();
        Self { file, store }
    }

    async fn begin(&self, id: &str) -> (Lease, OpenTransaction) {
        match TransactionalStore::<Lent>::begin(&self.store, &request(id)).await {
            Ok(Begun::Acquired(lease, open)) => (lease, open),
            other => panic!("{other:?}"),
        }
    }

    async fn commit(&self, open: OpenTransaction, lease: &Lease) -> Result<Commit, StoreError> {
        let outcome = Outcome::new("done");
        TransactionalStore::<Lent>::commit(&self.store, open, lease, &outcome, 10 * MINUTE).await
    }

    async fn charges(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM charges")
            .fetch_one(&mut self.file.bystander().await)
            .await
            .unwrap()
    }

    /// A transaction that was dropped has let go of its locks: others can write.
    async fn nothing_is_locked(&self) {
        let mut bystander = self.file.bystander().await;
        sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK")
            .execute(&mut bystander)
            .await
            .unwrap();
    }
}

fn lend(open: &mut OpenTransaction) -> &mut Lent {
    SqliteStore::lend(open)
}

async fn charge(connection: &mut SqliteConnection) {
    sqlx::query("INSERT INTO charges VALUES ('o-1')")
        .execute(connection)
        .await
        .unwrap();
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(sql).execute(connection).await.map(drop)
}

fn refusal(commit: Result<Commit, StoreError>) -> String {
    match commit {
        Ok(Commit::Refused { error }) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn writes_and_completion_commit_together() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    assert_eq!(shop.charges().await, 0);
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Committed)
    ));
    assert_eq!(shop.charges().await, 1);
    assert!(is_completed(&shop.store, "o-1").await);
}

#[tokio::test]
async fn a_transaction_is_lent_with_its_savepoints() {
    let shop = Shop::open().await;
    let request = request("o-1");
    let begun = TransactionalStore::<SqliteTransaction<'static>>::begin(&shop.store, &request);
    let Begun::Acquired(lease, mut open) = begun.await.unwrap() else {
        panic!("the key is free")
    };
    let lent: &mut SqliteTransaction<'static> = SqliteStore::lend(&mut open);
    charge(lent).await;
    let mut undone = lent.begin().await.unwrap();
    charge(&mut undone).await;
    drop(undone);
    let mut kept = lent.begin().await.unwrap();
    charge(&mut kept).await;
    kept.commit().await.unwrap();
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Committed)
    ));
    assert_eq!(shop.charges().await, 2);
}

#[tokio::test]
async fn rolling_back_undoes_the_writes_and_frees_the_key() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let reason = Release::failed("no");
    let released = TransactionalStore::<Lent>::roll_back(&shop.store, open, &lease, &reason).await;
    assert_eq!(released.unwrap(), Write::Applied);
    assert_eq!(shop.charges().await, 0);
    assert_eq!(acquire(&shop.store, "o-1").await.attempt, 2);
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing_written_and_nothing_locked() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    drop(open);
    shop.nothing_is_locked().await;
    assert_eq!(shop.charges().await, 0);
    assert!(matches!(
        shop.store.claim(&request("o-1")).await,
        Ok(Claim::Held { .. })
    ));
}

#[tokio::test]
async fn a_handler_cancelled_in_the_middle_of_a_statement_leaves_nothing_locked() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let slow = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000)
                INSERT INTO charges SELECT i FROM n";
    let working = tokio::spawn(async move { execute(lend(&mut open), slow).await });
    tokio::task::yield_now().await;
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    shop.nothing_is_locked().await;
    assert_eq!(shop.charges().await, 0);
}

#[tokio::test]
async fn a_lease_that_was_taken_over_takes_the_writes_with_it() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    shop.store.advance(MINUTE);
    let successor = acquire(&shop.store, "o-1").await;
    charge(lend(&mut open)).await;
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Fenced)
    ));
    assert_eq!(shop.charges().await, 0);
    complete(&shop.store, &successor).await;
}

#[tokio::test]
async fn a_lease_that_ran_out_but_that_nobody_took_over_still_commits() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    shop.store.advance(2 * MINUTE);
    charge(lend(&mut open)).await;
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Committed)
    ));
}

#[tokio::test]
async fn a_lease_is_extended_while_its_transaction_is_open() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    let extended = TransactionalStore::<Lent>::extend_open(&shop.store, &lease, 5 * MINUTE).await;
    assert_eq!(extended.unwrap(), Write::Applied);
    shop.store.advance(2 * MINUTE);
    assert!(matches!(
        shop.store.claim(&request("o-1")).await,
        Ok(Claim::Held { .. })
    ));
    charge(lend(&mut open)).await;
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Committed)
    ));
}

#[tokio::test]
async fn a_handler_that_ends_the_transaction_by_itself_is_refused() {
    for own_end in [
        "COMMIT",
        "ROLLBACK",
        "ROLLBACK; BEGIN",
        "COMMIT; BEGIN; INSERT INTO charges VALUES ('later')",
        "COMMIT; INSERT INTO charges VALUES ('outside')",
        "ROLLBACK TO idem_handler; RELEASE idem_handler",
    ] {
        // One connection, so that it is lent again at once.
        let shop = Shop::with(|builder| builder.connections(1)).await;
        let (lease, mut open) = shop.begin("o-1").await;
        execute(lend(&mut open), own_end).await.unwrap();
        refusal(shop.commit(open, &lease).await);
        shop.nothing_is_locked().await;

        let released = shop.store.release(&lease, &Release::failed("no")).await;
        assert_eq!(released.unwrap(), Write::Applied, "{own_end}");
        let before = shop.charges().await;
        let (lease, mut open) = shop.begin("o-1").await;
        charge(lend(&mut open)).await;
        assert!(matches!(
            shop.commit(open, &lease).await,
            Ok(Commit::Committed)
        ));
        assert_eq!(shop.charges().await, before + 1, "{own_end}");
    }
}

#[tokio::test]
async fn a_handler_that_leaves_a_nested_transaction_open_is_refused() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    std::mem::forget(lend(&mut open).begin().await.unwrap());
    refusal(shop.commit(open, &lease).await);
    assert!(!is_completed(&shop.store, "o-1").await);
    assert_eq!(shop.charges().await, 0);
    shop.begin("o-2").await;
}

#[tokio::test]
async fn a_swallowed_error_of_one_statement_costs_that_statement_only() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let twice = "INSERT INTO unique_charges VALUES ('a'), ('a')";
    assert!(execute(lend(&mut open), twice).await.is_err());
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Committed)
    ));
    assert_eq!(shop.charges().await, 1);
}

#[tokio::test]
async fn a_swallowed_error_that_ended_the_transaction_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let fatal = "INSERT OR ROLLBACK INTO unique_charges VALUES ('a'), ('a')";
    assert!(execute(lend(&mut open), fatal).await.is_err());
    refusal(shop.commit(open, &lease).await);
    assert_eq!(shop.charges().await, 0);
    assert!(!is_completed(&shop.store, "o-1").await);
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let orphan = "INSERT INTO children VALUES ('nobody')";
    execute(lend(&mut open), orphan).await.unwrap();
    let error = refusal(shop.commit(open, &lease).await);
    assert!(error.contains("FOREIGN KEY"), "{error}");
    assert_eq!(shop.charges().await, 0);
    assert!(!is_completed(&shop.store, "o-1").await);
    shop.nothing_is_locked().await;
}

#[tokio::test]
async fn a_snapshot_that_is_out_of_date_is_refused() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    execute(lend(&mut open), "SELECT * FROM charges")
        .await
        .unwrap();
    acquire(&shop.store, "somebody else").await;
    let error = refusal(shop.commit(open, &lease).await);
    assert!(error.contains("locked"), "{error}");
    assert!(!is_completed(&shop.store, "o-1").await);
}

#[tokio::test]
async fn a_handler_that_holds_the_write_lock_too_long_makes_others_wait_and_then_fail() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let waited = shop.store.claim(&request("o-2")).await;
    assert!(
        matches!(waited, Err(StoreError::Unavailable(_))),
        "{waited:?}"
    );
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Committed)
    ));
    acquire(&shop.store, "o-2").await;
}

#[tokio::test]
async fn what_a_handler_leaves_on_its_connection_is_not_lent_on() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let litter = "CREATE TEMP TABLE leftover (id); PRAGMA query_only = ON;";
    execute(lend(&mut open), litter).await.unwrap();
    refusal(shop.commit(open, &lease).await);

    let (lease, mut open) = shop.begin("o-2").await;
    let leftover = execute(lend(&mut open), "SELECT * FROM temp.leftover").await;
    assert!(leftover.is_err());
    charge(lend(&mut open)).await;
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Committed)
    ));
}

#[tokio::test]
async fn handlers_beyond_the_connections_wait_before_they_claim() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let waiting = request("o-2");
    let second = TransactionalStore::<Lent>::begin(&shop.store, &waiting);
    tokio::pin!(second);
    assert!(futures_util::poll!(second.as_mut()).is_pending());

    acquire(&shop.store, "o-2").await;
    charge(lend(&mut open)).await;
    assert!(matches!(
        shop.commit(open, &lease).await,
        Ok(Commit::Committed)
    ));
    assert!(matches!(second.await, Ok(Begun::Not(Claim::Held { .. }))));
}

#[tokio::test]
async fn a_completed_key_opens_no_transaction() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let lease = acquire(&shop.store, "o-1").await;
    complete(&shop.store, &lease).await;
    for _ in 0..3 {
        let begun = TransactionalStore::<Lent>::begin(&shop.store, &request("o-1")).await;
        assert!(matches!(begun, Ok(Begun::Not(Claim::Completed { .. }))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_handlers_at_once_each_commit_once() {
    let shop = Shop::with(|builder| builder.busy_timeout(Duration::from_secs(10))).await;
    let shop = Arc::new(shop);
    let handlers = (0..50).map(|id| {
        let shop = Arc::clone(&shop);
        tokio::spawn(async move {
            let (lease, mut open) = shop.begin(&id.to_string()).await;
            charge(lend(&mut open)).await;
            shop.commit(open, &lease).await.unwrap()
        })
    });
    for handler in futures_util::future::join_all(handlers).await {
        assert_eq!(handler.unwrap(), Commit::Committed);
    }
    assert_eq!(shop.charges().await, 50);
}

#[tokio::test]
async fn a_lent_connection_is_as_durable_and_as_patient_as_the_store() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    for (pragma, expected) in [
        ("PRAGMA synchronous", 2),
        ("PRAGMA foreign_keys", 1),
        ("PRAGMA busy_timeout", 500),
    ] {
        let set: i64 = sqlx::query_scalar(pragma)
            .fetch_one(lend(&mut open))
            .await
            .unwrap();
        assert_eq!(set, expected, "{pragma}");
    }
}
