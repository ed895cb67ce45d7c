//! Keys that are remembered for two seconds only, and how many wait to be purged while more come.

use std::time::{Duration, Instant};

use bench_driver::scale::{Backlog, Forgetting};
use bench_orders::{Options as Consumer, Tally, nothing_is_left};
use idem_amqp::{
    PostgresStore,
    sqlx::{self, Connection as _, PgConnection},
};
use tokio::time::{sleep, timeout};

use crate::{Result, ours, shift::Shift};

/// Nobody takes this long, and as many seconds as there are thousands of messages; something has got stuck.
const LIMIT: Duration = Duration::from_mins(5);
/// How often the records are counted, if that is quick: it takes a twentieth of the time at most.
const EVERY: Duration = Duration::from_millis(200);

/// Who consumes, and whether it purges.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "purge")]
pub(crate) struct Options {
    #[command(flatten)]
    consumer: Consumer,
    /// How many purge every second
    #[arg(long, default_value_t = 0)]
    purgers: u8,
    /// Holds a transaction open meanwhile, so that nothing that is removed can be cleaned up
    #[arg(long)]
    held: bool,
}

/// Consumes a queue without copies, counts meanwhile, checks, tells.
pub(crate) async fn measure(options: &Options) -> Result<()> {
    let Options {
        consumer,
        purgers,
        held,
    } = options;
    let place = &consumer.place;
    // Creates the table.
    PostgresStore::connect(consumer.store_url()?).await?;
    let mut horizon = PgConnection::connect(consumer.store_url()?).await?;
    if *held {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM idem_records";
        sqlx::raw_sql(begin).execute(&mut horizon).await?;
    }
    let mut census = Census::begin(consumer.store_url()?).await?;
    let (tally, shift) = (Tally::new(&place.orders()), Shift::of(place.messages));
    let limit = LIMIT + Duration::from_secs(u64::try_from(place.messages)? / 1_000);
    let consumed = timeout(limit, async {
        tokio::select! {
            end = ours::consume_briefly(consumer, &tally, &shift, *purgers) => end,
            gone = census.go_on() => Err(gone),
        }
    });
    let end = consumed.await;
    let end = end.map_err(|_| format!("not done after {limit:?}"))??;
    tally.executions(true)?;
    nothing_is_left(place).await?;
    let forgetting = Forgetting {
        messages: place.messages.try_into()?,
        seconds: tally.seconds_until(end),
        backlog: census.counts,
    };
    println!("{}", serde_json::to_string(&forgetting)?);
    Ok(())
}

/// Counts, now and then, what nobody need remember.
struct Census {
    connection: PgConnection,
    began: Instant,
    counts: Vec<Backlog>,
}

impl Census {
    async fn begin(url: &str) -> Result<Self> {
        Ok(Self {
            connection: PgConnection::connect(url).await?,
            began: Instant::now(),
            counts: Vec::new(),
        })
    }

    /// Returns only when it cannot count any more.
    async fn go_on(&mut self) -> crate::Error {
        loop {
            let began = Instant::now();
            match self.count().await {
                Ok(backlog) => self.counts.push(backlog),
                Err(gone) => return gone,
            }
            sleep(EVERY.max(began.elapsed() * 20)).await;
        }
    }

    async fn count(&mut self) -> Result<Backlog> {
        let expired: i64 = sqlx::query_scalar(
            "WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
             SELECT count(*) FROM idem_records
             WHERE purge_after <= (SELECT now FROM clock) AND forget_at <= (SELECT now FROM clock)",
        )
        .fetch_one(&mut self.connection)
        .await?;
        Ok(Backlog {
            seconds: self.began.elapsed().as_secs_f64(),
            expired: expired.try_into()?,
        })
    }
}
