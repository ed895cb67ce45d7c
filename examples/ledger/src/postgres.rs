//! On PostgreSQL.

use idem_amqp::{
    PostgresStore,
    prelude::*,
    sqlx::{self, Connection as _, PgConnection},
};

use crate::{Command, Error, PostingMade};

/// Without a unique constraint on postings: that there is one row for each is the worker's doing. The lock is for
/// services that start at the same time, whom `IF NOT EXISTS` alone does not keep apart.
const CREATE_TABLES: &str = "
BEGIN;
SET LOCAL client_min_messages = warning;
SELECT pg_advisory_xact_lock(hashtext('postings'));
CREATE TABLE IF NOT EXISTS postings (posting_id text NOT NULL, account text NOT NULL, cents bigint NOT NULL);
CREATE TABLE IF NOT EXISTS balances (account text PRIMARY KEY, cents bigint NOT NULL);
COMMIT";

/// The posting, the balance and the record that it is booked commit together.
// The scope is durable: it stands in every key. The lease is short: so long a posting waits for a service that was
// killed with it.
#[idempotent(key = "posting_id", scope = "ledger.book", lease = "5s")]
async fn book(posting: PostingMade, db: &mut PgConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO postings (posting_id, account, cents) VALUES ($1, $2, $3)")
        .bind(&posting.posting_id)
        .bind(&posting.account)
        .bind(posting.cents)
        .execute(&mut *db)
        .await?;
    sqlx::query(
        "INSERT INTO balances (account, cents) VALUES ($1, $2)
         ON CONFLICT (account) DO UPDATE SET cents = balances.cents + excluded.cents",
    )
    .bind(&posting.account)
    .bind(posting.cents)
    .execute(db)
    .await?;
    Ok(())
}

pub(crate) async fn run(command: Command, store_url: &str) -> Result<(), Error> {
    let store = PostgresStore::connect(store_url).await?;
    let mut db = PgConnection::connect(store_url).await?;
    sqlx::raw_sql(CREATE_TABLES).execute(&mut db).await?;
    match command {
        Command::Book => crate::serve::<book, _>(store).await,
        Command::Ledger => {
            let rows = sqlx::query_as(crate::SELECT_LEDGER);
            crate::print_ledger(rows.fetch_all(&mut db).await?);
            Ok(())
        }
    }
}
