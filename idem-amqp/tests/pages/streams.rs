use super::Error;

#[derive(serde::Deserialize, serde::Serialize)]
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

async fn read_partitions(database_url: &str, amqp_url: &str) -> Result<(), Error> {
    use std::time::Duration;
    use idem_amqp::{PostgresStore, Queue, prelude::*};

    let ledger = Queue::super_stream("ledger", 3).max_age(Duration::from_hours(24 * 30));
    Worker::builder(PostgresStore::connect(database_url).await?)
        .consume_stream::<book>(ledger)
        .run_until(amqp_url, shutdown_signal()).await?;
    Ok(())
}

fn stopping() {
    use idem_amqp::{OnFailure, Queue};

    let ledger = Queue::stream("ledger").prefetch(1).on_failure(OnFailure::Stop);
    drop(ledger);
}

mod publishing {
    use idem_amqp::{Publication, PublishError, Publisher};
    use super::Entry;

    /// FNV-1a: the same everywhere, unlike that of `std`.
    fn partition(account: &str) -> u64 {
        let hash = account.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash % 3
    }

    async fn publish(publisher: &Publisher, entry: &Entry) -> Result<(), PublishError> {
        let key = partition(&entry.id).to_string();
        publisher.publish(&Publication::json("ledger", entry).exchange("ledger", &key)).await
    }
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
