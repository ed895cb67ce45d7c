//! The outbox by itself: how fast a relay empties the table, and how long an event takes to its consumer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bench_driver::{
    consume::{Contestant, Finish},
    latency::Delays,
};
use bench_orders::{Options as Consumer, Order, Stopwatch, Tally, body};
use idem_amqp::{
    PostgresStore, SqliteStore,
    outbox::{Outbox, OutboxRelay, SharedOutbox},
    sqlx::{self, AssertSqlSafe, Connection as _, PgConnection},
};
use tokio::time::{sleep, timeout};

use crate::{
    Result, charges, consume,
    events::{self, Events},
    latency,
    naive::HandwrittenOutbox,
};

/// Nobody takes this long; something has got stuck.
const LIMIT: Duration = Duration::from_mins(5);
/// An outbox has at most so many messages.
const AT_ONCE: usize = 1_000;

/// Who publishes.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "relay")]
pub(crate) struct Options {
    #[command(flatten)]
    consumer: Consumer,
    /// So many events were published since a transaction has begun that is still open: their rows cannot be cleaned up
    #[arg(long, default_value_t = 0)]
    removed: usize,
    /// So many events more are in the table, which are to leave tomorrow
    #[arg(long, default_value_t = 0)]
    later: usize,
    /// Milliseconds after the commit at which each event is to leave, for what is timed: only how late it is counts
    #[arg(long, default_value_t = 0)]
    after_ms: u64,
    /// Orders per second, for what is timed
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
}

/// Fills the table, publishes all that is in it, checks, tells.
pub(crate) async fn relay(options: &Options) -> Result<()> {
    let place = &options.consumer.place;
    let (url, rows) = (options.consumer.store_url()?, place.messages);
    let events = Events::declare(place).await?;
    let held = Held::begin(options).await?;
    let emptied = match options.consumer.contestant {
        Contestant::HandwrittenPostgresOutbox => {
            let outbox = HandwrittenOutbox::connect(url).await?;
            outbox.fill(rows).await?;
            let (connection, channel) = place.connect().await?;
            let began = Instant::now();
            outbox.publish(&channel, rows).await?;
            let emptied = began.elapsed();
            connection.close(200, "done".into()).await?;
            emptied
        }
        Contestant::IdemSqliteAtomicOutbox => {
            let store = SqliteStore::connect(url).await?;
            let mut connection = charges::sqlite(url).await?;
            for some in in_parts(rows) {
                let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
                store.publish(&mut transaction, outbox_of(some)?).await?;
                transaction.commit().await?;
            }
            empty(store.outbox(), &events, options).await?
        }
        _ => {
            let store = PostgresStore::connect(url).await?;
            let mut connection = PgConnection::connect(url).await?;
            for some in in_parts(rows) {
                let mut transaction = connection.begin().await?;
                store.publish(&mut transaction, outbox_of(some)?).await?;
                transaction.commit().await?;
            }
            empty(store.outbox(), &events, options).await?
        }
    };
    held.end().await?;
    events.number(rows).await?;
    let finish = Finish {
        messages: rows.try_into()?,
        executions: rows.try_into()?,
        seconds: emptied.as_secs_f64(),
    };
    println!("{}", serde_json::to_string(&finish)?);
    Ok(())
}

fn in_parts(rows: usize) -> impl Iterator<Item = usize> {
    let rest = rows % AT_ONCE;
    std::iter::repeat_n(AT_ONCE, rows / AT_ONCE).chain((rest > 0).then_some(rest))
}

fn outbox_of(rows: usize) -> Result<Outbox> {
    let outbox = Outbox::outside();
    for number in 0..rows {
        outbox.publish(events::of(&Order::decode(&body(number))?))?;
    }
    Ok(outbox)
}

/// How long a relay takes until all is in the queue.
async fn empty(outbox: SharedOutbox, events: &Events, options: &Options) -> Result<Duration> {
    let place = &options.consumer.place;
    let relay = OutboxRelay::new(outbox, place.amqp_url.as_str())?;
    let began = Instant::now();
    let (mut emptied, mut failed) = (Duration::ZERO, None);
    relay
        .run_until(async {
            loop {
                match events.count().await {
                    Ok(count) if count < place.messages => sleep(Duration::from_millis(5)).await,
                    Ok(_) => break,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            emptied = began.elapsed();
        })
        .await;
    failed.map_or(Ok(emptied), Err)
}

/// Consumes the queue beside what else is in the table.
pub(crate) async fn consume(options: &Options) -> Result<()> {
    let held = Held::begin(options).await?;
    consume::measure(&options.consumer).await?;
    held.end().await
}

/// A transaction that is open meanwhile, so that nothing that was removed since can be cleaned up.
struct Held(Option<PgConnection>);

impl Held {
    /// Writes what else is to be in the table, too.
    async fn begin(options: &Options) -> Result<Self> {
        let Options { removed, later, .. } = *options;
        if removed == 0 && later == 0 {
            return Ok(Self(None));
        }
        let url = options.consumer.store_url()?;
        // Creates the table.
        PostgresStore::connect(url).await?;
        let mut other = PgConnection::connect(url).await?;
        if later > 0 {
            insert(&mut other, later, "now() + interval '1 day'").await?;
            sqlx::raw_sql("VACUUM ANALYZE idem_records_outbox")
                .execute(&mut other)
                .await?;
        }
        if removed == 0 {
            return Ok(Self(None));
        }
        let mut connection = PgConnection::connect(url).await?;
        sqlx::raw_sql(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM idem_records_outbox",
        )
        .execute(&mut connection)
        .await?;
        insert(&mut other, removed, "now()").await?;
        sqlx::raw_sql("DELETE FROM idem_records_outbox WHERE due <= now()")
            .execute(&mut other)
            .await?;
        Ok(Self(Some(connection)))
    }

    async fn end(self) -> Result<()> {
        if let Some(mut connection) = self.0 {
            sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
        }
        Ok(())
    }
}

/// Writes so many events, which are due then.
async fn insert(connection: &mut PgConnection, rows: usize, due: &str) -> Result<()> {
    let insert = format!(
        "INSERT INTO idem_records_outbox
             (id, message_id, target, head, body, due, attempts, created_at)
         SELECT gen_random_uuid(), n::text, 'bench', '', '', {due}, 0, now()
         FROM generate_series(1, $1) AS n"
    );
    let insert = sqlx::query(AssertSqlSafe(insert));
    insert
        .bind(i64::try_from(rows)?)
        .execute(connection)
        .await?;
    Ok(())
}

/// The outbox of the contestant's store.
async fn outbox_at(options: &Consumer) -> Result<SharedOutbox> {
    let url = options.store_url()?;
    Ok(match options.contestant {
        Contestant::IdemSqliteAtomicOutbox | Contestant::IdemSqliteBatchOutbox => {
            SqliteStore::connect(url).await?.outbox()
        }
        _ => PostgresStore::connect(url).await?.outbox(),
    })
}

/// Publishes orders at a rate, and measures how long the event of each takes from the end of its handler to its
/// consumer.
pub(crate) async fn time_events(options: &Options) -> Result<()> {
    let place = &options.consumer.place;
    let warm_up = latency::warm_up(options.rate);
    let messages = place.messages + warm_up;
    let mut consumer = options.consumer.clone();
    consumer.place.messages = messages;
    let (connection, channel) = place.connect().await?;
    place.declare(&channel).await?;
    let events = Events::declare(place).await?;
    let held = match consumer.contestant {
        Contestant::HandwrittenPostgresOutbox => Held(None),
        _ => Held::begin(options).await?,
    };
    let orders: Vec<_> = (0..messages).collect();
    let (published, told) = (Stopwatch::new(messages), Arc::new(Stopwatch::new(messages)));
    let after = Duration::from_millis(options.after_ms);
    let tally = Tally::new(&orders).with_events_timed_by(Arc::clone(&told), after);
    let consuming = consume::consume_and_charge(&consumer, &tally);
    let publishing = latency::publish(
        &channel,
        &place.queue,
        Some(options.rate),
        &orders,
        &published,
    );
    let all = Box::pin(async {
        tokio::try_join!(consuming, publishing)?;
        // The last ones are on their way to the consumer; or they leave later, and the worker has stopped.
        let all_told = async {
            for &order in &orders {
                told.stopped(order).await;
            }
        };
        if after.is_zero() {
            all_told.await;
        } else {
            let outbox = outbox_at(&options.consumer).await?;
            OutboxRelay::new(outbox, place.amqp_url.as_str())?
                .run_until(all_told)
                .await;
        }
        Result::Ok(())
    });
    let done = timeout(LIMIT, async {
        tokio::select! {
            done = all => done,
            gone = events.watch(&told) => gone,
        }
    });
    done.await
        .map_err(|_| format!("not done after {LIMIT:?}"))??;
    held.end().await?;
    connection.close(200, "done".into()).await?;
    let mut delays = told.delays()?;
    for delay in &mut delays {
        *delay = delay
            .checked_sub(after)
            .ok_or("an event has left before its time")?;
    }
    println!(
        "{}",
        serde_json::to_string(&Delays::of(&delays[warm_up..]))?
    );
    Ok(())
}
