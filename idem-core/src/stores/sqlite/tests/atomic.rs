use sqlx::{Connection, SqliteConnection, SqliteTransaction};

use super::{super::atomic::OpenTransaction, *};
use crate::{
    message::Key,
    store::{
        Begun, Completion, Finish, Finished, MarkMove, Owner, StreamClaim, StreamStore as _,
        TransactionalStore,
    },
};

mod connections;
mod refusals;
#[allow(
    clippy::duplicate_mod,
    reason = "the same of every store that lends a transaction"
)]
#[path = "../../tests/replies.rs"]
mod replies;
mod stray;

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

    async fn commit(&self, open: OpenTransaction, lease: &Lease) -> Result<Finished, StoreError> {
        let outcome = Outcome::new("done");
        let complete = Finish::Complete(Completion::new(lease, &outcome, 10 * MINUTE));
        TransactionalStore::<Lent>::finish(&self.store, open, complete).await
    }

    async fn rolls_back(&self, open: OpenTransaction) {
        let ended = TransactionalStore::<Lent>::finish(&self.store, open, Finish::RollBack).await;
        assert_eq!(ended.unwrap(), Finished::RolledBack);
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

fn refusal(commit: Result<Finished, StoreError>) -> String {
    match commit {
        Ok(Finished::Refused { error }) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn writes_and_completion_commit_together() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    assert_eq!(shop.charges().await, 0);
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
    assert_eq!(shop.charges().await, 1);
    assert!(is_completed(&shop.store, "o-1").await);
}

/// So whoever reads the table, as an operator does, need not know how a key was completed.
#[tokio::test]
async fn a_commit_leaves_the_row_that_a_completion_leaves() {
    let shop = Shop::open().await;
    let leased = acquire(&shop.store, "leased").await;
    let (lease, open) = shop.begin("atomic").await;
    shop.store.advance(MINUTE / 2);
    let (outcome, retention) = (Outcome::new("done"), 60 * MINUTE);
    let written = shop.store.complete(&leased, &outcome, retention).await;
    assert_eq!(written.unwrap(), Write::Applied);
    let complete = Finish::Complete(Completion::new(&lease, &outcome, retention));
    let ended = TransactionalStore::<Lent>::finish(&shop.store, open, complete).await;
    assert_eq!(ended.unwrap(), Finished::Committed);
    // A token is the time of its claim.
    let rows: Vec<String> = sqlx::query_scalar(
        "SELECT json_array(state, reason, error, attempts, in_doubt, hex(outcome), lease_ends, not_before,
                retention, (updated_at - token) / 30000000, forget_at - updated_at)
         FROM idem_records",
    )
    .fetch_all(&mut shop.file.bystander().await)
    .await
    .unwrap();
    let expected = r#"["completed",null,null,1,0,"646F6E65",null,null,3600000000,1,3600000000]"#;
    assert_eq!(rows, [expected, expected]);
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
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
    assert_eq!(shop.charges().await, 2);
}

#[tokio::test]
async fn rolling_back_undoes_the_writes_and_frees_the_key() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    shop.rolls_back(open).await;
    let released = shop.store.release(&lease, &Release::failed("no")).await;
    assert_eq!(released.unwrap(), Write::Applied);
    assert_eq!(shop.charges().await, 0);
    assert_eq!(acquire(&shop.store, "o-1").await.attempt, 2);
}

#[tokio::test]
async fn a_lease_that_was_taken_over_takes_the_writes_with_it() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    shop.store.advance(MINUTE);
    let successor = acquire(&shop.store, "o-1").await;
    charge(lend(&mut open)).await;
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Fenced));
    assert_eq!(shop.charges().await, 0);
    complete(&shop.store, &successor).await;
}

#[tokio::test]
async fn a_lease_that_ran_out_but_that_nobody_took_over_still_commits() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    shop.store.advance(2 * MINUTE);
    charge(lend(&mut open)).await;
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
}

#[tokio::test]
async fn a_lease_is_extended_while_its_transaction_is_open() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    let extended = TransactionalStore::<Lent>::extend_open(&shop.store, &lease, 5 * MINUTE).await;
    assert_eq!(extended.unwrap(), Write::Applied);
    shop.store.advance(2 * MINUTE);
    assert_matches!(
        shop.store.claim(&request("o-1")).await,
        Ok(Claim::Held { .. })
    );
    charge(lend(&mut open)).await;
    assert_matches!(shop.commit(open, &lease).await, Ok(Finished::Committed));
}
