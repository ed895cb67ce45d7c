use super::Error;

#[derive(serde::Deserialize)]
struct Entry { id: String }

#[idem_amqp::idempotent(key = "id", scope = "books.book")]
async fn book(_entry: Entry) -> Result<(), idem_amqp::Failed> { Ok(()) }

async fn read(database_url: &str, amqp_url: &str) -> Result<(), Error> {
    use std::time::Duration;
    use idem_amqp::{PostgresStore, Queue, StreamOffset, prelude::*};

    let ledger = Queue::stream("ledger").max_age(Duration::from_hours(24 * 30)).offset(StreamOffset::First);
    Worker::builder(PostgresStore::connect(database_url).await?)
        .consume_stream::<book>(ledger)
        .run_until(amqp_url, shutdown_signal()).await?;
    Ok(())
}

mod without_records {
    use idem_amqp::{prelude::*, sqlx::{self, PgConnection}};

    #[derive(serde::Deserialize)]
    struct PostingMade { posting_id: String, cents: i64 }

    #[idempotent(key = position(), scope = "ledger.sum", batch = 256)]
    async fn sum(postings: Batch<PostingMade>, db: &mut PgConnection) -> Result<(), Failed> {
        let (ids, cents): (Vec<_>, Vec<_>) = postings.iter().map(|it| (&*it.posting_id, it.cents)).unzip();
        sqlx::query("INSERT INTO postings (id, cents) SELECT * FROM unnest($1::text[], $2::bigint[])")
            .bind(ids).bind(cents).execute(db).await?;
        Ok(())
    }
}
