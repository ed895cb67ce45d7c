//! One consumer's way through a queue: what it is told, the clock, and the check in the end.

use std::time::{Duration, Instant};

use bench_driver::consume::{Contestant, Finish, QueueKind};
use tokio::time::timeout;

use crate::{Place, Result, Tally};

/// Nobody takes this long; something has got stuck.
const LIMIT: Duration = Duration::from_mins(5);

/// Who consumes what.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The queue.
    #[command(flatten)]
    pub place: Place,
    /// How many deliveries may be unacknowledged
    #[arg(long)]
    pub prefetch: u16,
    /// Who consumes
    #[arg(long, value_enum)]
    pub contestant: Contestant,
    /// Where it keeps its keys, if that is a server
    #[arg(long)]
    pub store_url: Option<String>,
    /// How long a call of its handler takes, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub handler_ms: u64,
}

impl Options {
    /// How long a call of the handler takes.
    pub fn handler_time(&self) -> Duration {
        Duration::from_millis(self.handler_ms)
    }

    /// # Errors
    /// There is none.
    pub fn store_url(&self) -> Result<&str> {
        let missing = "this contestant takes the `--store-url` of a server";
        Ok(self.store_url.as_deref().ok_or(missing)?)
    }
}

/// Lets `consume` empty the queue, checks what it did, and tells on standard output how long it took.
///
/// # Errors
/// That of `consume`; it took minutes; an order was not executed as often as it should be; a message
/// was not acknowledged.
pub async fn measure(
    options: &Options,
    consume: impl AsyncFnOnce(&Options, &Tally) -> Result<Instant>,
) -> Result<()> {
    let tally = Tally::new(&options.place.orders()).taking(options.handler_time());
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

/// Looks at the queue, and deletes it. A message that was not acknowledged is back by now: its
/// channel is closed. What is in a stream stays there.
///
/// # Errors
/// There are such messages; or the broker refuses something.
pub async fn nothing_is_left(place: &Place) -> Result<()> {
    let (connection, channel) = place.connect().await?;
    let waiting = place.waiting(&channel).await?;
    place.delete(&channel).await?;
    connection.close(200, "done".into()).await?;
    if waiting > 0 && place.kind != QueueKind::Stream {
        return Err(format!("{waiting} messages were not acknowledged").into());
    }
    Ok(())
}
