//! Consumes a queue as one contestant.

use std::time::Instant;

use bench_driver::consume::Contestant;
use bench_orders::{Options, Tally};

use crate::{
    Result,
    by_hand::{self, Acks},
    charges::Charges,
    events::Events,
    naive::{
        HandwrittenOutbox, HandwrittenPostgres, HandwrittenSqlite, NaivePostgres, NaiveRedis,
        Offset, Savepoints, Setwise, SqliteSavepoints,
    },
    ours,
    shift::Shift,
};

/// Consumes until the broker has everything acknowledged, checks, tells.
pub(crate) async fn measure(options: &Options) -> Result<()> {
    bench_orders::measure(options, consume).await
}

/// Returns when its connection was closed.
pub(crate) async fn consume(options: &Options, tally: &Tally) -> Result<Instant> {
    let events = if options.contestant.publishes() {
        Some(Events::declare(&options.place).await?)
    } else {
        None
    };
    let end = consume_and_charge(options, tally).await?;
    if let Some(events) = events {
        events.number(tally.orders()).await?;
    }
    Ok(end)
}

/// The same, where the queue of events is there.
pub(crate) async fn consume_and_charge(options: &Options, tally: &Tally) -> Result<Instant> {
    let charges = Charges::of(options).await?;
    let end = match options.contestant {
        Contestant::LapinAckEach => by_hand::one_by_one(options, Acks::Each, tally).await?,
        Contestant::LapinNoAck => by_hand::one_by_one(options, Acks::None, tally).await?,
        Contestant::LapinTaskEach => by_hand::task_each(options, (), tally).await?,
        Contestant::LapinAckTogether => by_hand::together(options, (), 256, tally).await?,
        Contestant::AmqprsAckEach => by_hand::with_amqprs(options, tally).await?,
        Contestant::NaiveRedis => {
            let keys = NaiveRedis::connect(options.store_url()?).await?;
            by_hand::task_each(options, keys, tally).await?
        }
        Contestant::NaivePostgres => {
            let keys = NaivePostgres::connect(options.store_url()?).await?;
            by_hand::task_each(options, keys, tally).await?
        }
        Contestant::HandwrittenPostgresAtomic => {
            let keys = HandwrittenPostgres::connect(options.store_url()?).await?;
            by_hand::task_each(options, keys, tally).await?
        }
        Contestant::HandwrittenPostgresOutbox => {
            let keys = HandwrittenOutbox::connect(options.store_url()?).await?;
            let (connection, channel) = options.place.connect().await?;
            let publishing = keys.publish(&channel, tally.orders());
            let consuming = by_hand::task_each(options, keys.clone(), tally);
            tokio::try_join!(consuming, publishing)?;
            connection.close(200, "done".into()).await?;
            Instant::now()
        }
        Contestant::HandwrittenSqliteAtomic => {
            let keys = HandwrittenSqlite::connect(options.store_url()?).await?;
            by_hand::task_each(options, keys, tally).await?
        }
        Contestant::HandwrittenPostgresSetwise64 => {
            let keys = Setwise::connect(options.store_url()?).await?;
            by_hand::together(options, keys, 64, tally).await?
        }
        Contestant::HandwrittenPostgresSetwise => {
            let keys = Setwise::connect(options.store_url()?).await?;
            by_hand::together(options, keys, 256, tally).await?
        }
        Contestant::HandwrittenPostgresSavepoints => {
            // No more savepoints than a transaction of PostgreSQL keeps at hand.
            let keys = Savepoints::connect(options.store_url()?).await?;
            by_hand::together(options, keys, 64, tally).await?
        }
        Contestant::HandwrittenSqliteSavepoints => {
            let keys = SqliteSavepoints::connect(options.store_url()?).await?;
            by_hand::together(options, keys, 64, tally).await?
        }
        Contestant::HandwrittenPostgresOffset => {
            let offset = Offset::connect(options.store_url()?).await?;
            by_hand::together(options, offset, 256, tally).await?
        }
        _ => {
            let shift = Shift::of(options.place.messages);
            ours::consume(options, tally, &shift).await?
        }
    };
    if let Some(charges) = charges {
        charges.number(tally.orders()).await?;
    }
    Ok(end)
}
