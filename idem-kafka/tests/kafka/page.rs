//! What `docs/kafka.md` shows.

use idem_core::{
    Batch, Failed,
    sqlx::{self, PgConnection},
};

#[derive(serde::Deserialize)]
struct PostingMade {
    posting_id: String,
    cents: i64,
}

#[rustfmt::skip]
async fn run(
    database_url: &str,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Box<dyn std::error::Error>> {
use idem_core::{PostgresStore, idempotent};
use idem_kafka::{KafkaWorker, Topic};

#[idempotent(key = "posting_id", scope = "ledger.book")]
async fn book(posting: PostingMade, db: &mut PgConnection) -> Result<(), Failed> {
    // … the rows that you write commit together with the record of the key
    Ok(())
}

KafkaWorker::builder(PostgresStore::connect(database_url).await?)
    .consume::<book>(Topic::new("postings").dead_letters("postings.dead"))
    .run_until("localhost:9092", shutdown).await?;
    Ok(())
}

#[rustfmt::skip]
mod without_records {
use super::*;
use idem_core::idempotent;

#[idempotent(key = position(), scope = "ledger.sum", batch = 256)]
async fn sum(postings: Batch<PostingMade>, db: &mut PgConnection) -> Result<(), Failed> {
    let (ids, cents): (Vec<_>, Vec<_>) = postings.iter().map(|it| (&*it.posting_id, it.cents)).unzip();
    sqlx::query("INSERT INTO postings (id, cents) SELECT * FROM unnest($1::text[], $2::bigint[])")
        .bind(ids).bind(cents).execute(db).await?;
    Ok(())
}
}
