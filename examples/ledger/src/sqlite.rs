//! On SQLite.

use idem_amqp::{
    SqliteStore,
    prelude::*,
    sqlx::{self, Connection as _, SqliteConnection},
};

use crate::{Command, Error, PostingMade};

/// Without a unique constraint on postings: that there is one row for each is the worker's doing.
const CREATE_TABLES: &str = "
CREATE TABLE IF NOT EXISTS postings (posting_id TEXT NOT NULL, account TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, cents INTEGER NOT NULL)";

/// The posting, the balance and the record that it is booked commit together.
// The scope is durable: it stands in every key. The lease is short: so long a posting waits for a service that was
// killed with it.
#[idempotent(key = "posting_id", scope = "ledger.book", lease = "5s")]
async fn book(posting: PostingMade, db: &mut SqliteConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO postings (posting_id, account, cents) VALUES (?, ?, ?)")
        .bind(&posting.posting_id)
        .bind(&posting.account)
        .bind(posting.cents)
        .execute(&mut *db)
        .await?;
    sqlx::query(
        "INSERT INTO balances (account, cents) VALUES (?, ?)
         ON CONFLICT (account) DO UPDATE SET cents = balances.cents + excluded.cents",
    )
    .bind(&posting.account)
    .bind(posting.cents)
    .execute(db)
    .await?;
    Ok(())
}

pub(crate) async fn run(command: Command, store_url: &str) -> Result<(), Error> {
    let store = SqliteStore::connect(store_url).await?;
    let mut db = SqliteConnection::connect(store_url).await?;
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
