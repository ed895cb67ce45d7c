//! Consumes a queue as one contestant, checks what it did, and tells how long it took.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use xtask::bench::consume::{Contestant, Finish};

use crate::{
    Result,
    by_hand::{self, Acks},
    charges::Charges,
    naive::{HandwrittenPostgres, NaivePostgres, NaiveRedis},
    ours,
    place::Place,
    sequence,
    tally::Tally,
};

/// Nobody takes this long; something has got stuck.
const LIMIT: Duration = Duration::from_mins(5);

/// Who consumes what.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) place: Place,
    /// How many deliveries may be unacknowledged
    #[arg(long)]
    pub(crate) prefetch: u16,
    /// Who consumes
    #[arg(long, value_enum)]
    pub(crate) contestant: Contestant,
    /// Where it keeps its keys, if that is a server
    #[arg(long)]
    store_url: Option<String>,
}

/// Consumes until the broker has everything acknowledged, checks, tells.
pub(crate) async fn measure(options: &Options) -> Result<()> {
    let tally = Tally::new(&sequence::orders(options.place.messages));
    let consumed = timeout(LIMIT, consume(options, &tally)).await;
    let end = consumed.map_err(|_| format!("not done after {LIMIT:?}"))??;
    let finish = Finish {
        messages: options.place.messages.try_into()?,
        executions: tally.executions(options.contestant.deduplicates())?,
        seconds: tally.seconds_until(end),
    };
    nothing_is_left(&options.place).await?;
    println!("{}", serde_json::to_string(&finish)?);
    Ok(())
}

/// Returns when its connection was closed.
pub(crate) async fn consume(options: &Options, tally: &Tally) -> Result<Instant> {
    match options.contestant {
        Contestant::LapinAckEach => by_hand::one_by_one(options, Acks::Each, tally).await,
        Contestant::LapinNoAck => by_hand::one_by_one(options, Acks::None, tally).await,
        Contestant::LapinTaskEach => by_hand::task_each(options, (), tally).await,
        Contestant::AmqprsAckEach => by_hand::with_amqprs(options, tally).await,
        Contestant::NaiveRedis => {
            let keys = NaiveRedis::connect(options.store_url()?).await?;
            by_hand::task_each(options, keys, tally).await
        }
        Contestant::NaivePostgres => {
            let keys = NaivePostgres::connect(options.store_url()?).await?;
            by_hand::task_each(options, keys, tally).await
        }
        Contestant::HandwrittenPostgresAtomic => {
            let charges = Charges::create(options.store_url()?).await?;
            let keys = HandwrittenPostgres::connect(options.store_url()?).await?;
            let end = by_hand::task_each(options, keys, tally).await?;
            charges.number(tally.orders()).await?;
            Ok(end)
        }
        Contestant::IdemMemory => ours::in_memory(options, tally).await,
        Contestant::IdemSqlite => ours::in_sqlite(options, tally).await,
        Contestant::IdemRedis => ours::in_redis(options, tally).await,
        Contestant::IdemPostgres => ours::in_postgres(options, tally).await,
        Contestant::IdemPostgresAtomic => {
            let charges = Charges::create(options.store_url()?).await?;
            let end = ours::atomic_in_postgres(options, tally).await?;
            charges.number(tally.orders()).await?;
            Ok(end)
        }
        Contestant::IdemPostgresGrouped => {
            let charges = Charges::create(options.store_url()?).await?;
            let end = ours::grouped_in_postgres(options, tally).await?;
            charges.number(tally.orders()).await?;
            Ok(end)
        }
    }
}

/// A message that was not acknowledged is back in its queue by now: its channel is closed.
pub(crate) async fn nothing_is_left(place: &Place) -> Result<()> {
    let (connection, channel) = place.connect().await?;
    let waiting = place.waiting(&channel).await?;
    place.delete(&channel).await?;
    connection.close(200, "done".into()).await?;
    if waiting > 0 {
        return Err(format!("{waiting} messages were not acknowledged").into());
    }
    Ok(())
}

impl Options {
    pub(crate) fn store_url(&self) -> Result<&str> {
        let missing = "this contestant takes the `--store-url` of a server";
        Ok(self.store_url.as_deref().ok_or(missing)?)
    }
}
