//! What `docs/kafka.md` shows.

use idem_core::{Failed, sqlx::PgConnection};

#[derive(serde::Deserialize)]
struct PostingMade {
    posting_id: String,
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
