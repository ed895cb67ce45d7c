//! How long one message takes, from its publication until its consumer is done with it.
//!
//! Publisher and consumer are in one process, on connections of their own, so that there is one clock.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bench_driver::latency::Delays;
use bench_orders::{Options as Consumer, Stopwatch, Tally, body, id, nothing_is_left};
use lapin::{BasicProperties, Channel, options::BasicPublishOptions};
use tokio::time::{sleep_until, timeout};

use crate::{Result, consume, ours};

const PERSISTENT: u8 = 2;
/// Nobody takes this long; something has got stuck.
const LIMIT: Duration = Duration::from_mins(5);
/// Messages before the first that counts: connections are made, statements prepared.
const WARM_UP: usize = 50;

/// The same under load, where everything is needed at once: what comes in half a second.
pub(crate) fn warm_up(rate: u32) -> usize {
    WARM_UP.max(rate as usize / 2)
}

/// Who is measured, and how.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "latency")]
pub(crate) struct Options {
    #[command(flatten)]
    consumer: Consumer,
    /// Messages per second; without it, the next one is published when the one before is done
    #[arg(long)]
    rate: Option<u32>,
}

/// Publishes until the last message is done, checks, tells.
pub(crate) async fn measure(options: &Options) -> Result<()> {
    let place = &options.consumer.place;
    let warm_up = options.rate.map_or(WARM_UP, warm_up);
    let messages = place.messages + warm_up;
    let mut consumer = options.consumer.clone();
    consumer.place.messages = messages;
    let (connection, channel) = place.connect().await?;
    place.declare(&channel).await?;
    let stopwatch = Arc::new(Stopwatch::new(messages));
    let orders: Vec<_> = (0..messages).collect();
    let tally = Tally::new(&orders).timed_by(Arc::clone(&stopwatch));
    let tally = tally.taking(consumer.handler_time());
    let consuming = consume::consume(&consumer, &tally);
    let publishing = publish(&channel, &place.queue, options.rate, &orders, &stopwatch);
    let both = Box::pin(async { tokio::try_join!(consuming, publishing) });
    let done = timeout(LIMIT, both).await;
    done.map_err(|_| format!("not done after {LIMIT:?}"))??;
    tally.executions(true)?;
    connection.close(200, "done".into()).await?;
    nothing_is_left(place).await?;
    let delays = stopwatch.delays()?;
    println!(
        "{}",
        serde_json::to_string(&Delays::of(&delays[warm_up..]))?
    );
    Ok(())
}

pub(crate) async fn publish(
    channel: &Channel,
    queue: &str,
    rate: Option<u32>,
    orders: &[usize],
    stopwatch: &Stopwatch,
) -> Result<()> {
    let mut due = Instant::now();
    for &order in orders {
        if let Some(rate) = rate {
            sleep_until(due.into()).await;
            due += Duration::from_secs(1) / rate;
        }
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_message_id(id(order).into())
            .with_delivery_mode(PERSISTENT);
        let options = BasicPublishOptions::default();
        let body = body(order);
        stopwatch.start(order);
        let sent = channel.basic_publish("".into(), queue.into(), options, &body, properties);
        drop(sent.await?);
        if rate.is_none() {
            stopwatch.stopped(order).await;
        }
    }
    Ok(())
}

/// Claims and completes one key after the other, and tells.
pub(crate) async fn measure_store(options: &Consumer) -> Result<()> {
    let delays = ours::claim_and_complete(options, WARM_UP + options.place.messages).await?;
    println!(
        "{}",
        serde_json::to_string(&Delays::of(&delays[WARM_UP..]))?
    );
    Ok(())
}
