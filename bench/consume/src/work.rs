//! One worker process of several that share a queue: begins and ends when it is told on standard
//! input, and tells on standard output how it gets on.

use std::time::{Duration, Instant, SystemTime};

use bench_orders::{Options, Tally};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    time::sleep,
};

use crate::{Result, ours, shift::Shift};

/// How often it tells.
const NOW_AND_THEN: Duration = Duration::from_millis(5);

/// What it tells, a line each, in this order.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Told {
    /// It could begin, and does with the next line of its input.
    Ready,
    /// The broker sends it messages.
    Consuming,
    /// So many of them are done. It ends with its input.
    Settled(usize),
    /// It has ended.
    Share(Share),
}

/// What one process has done.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Share {
    /// How often it executed each order.
    pub(crate) executions: Vec<u32>,
    /// When its first message came, if one did: since 1970, by the clock of all processes.
    pub(crate) began: Option<Duration>,
    /// When its connection was closed, likewise.
    pub(crate) ended: Duration,
    /// The most memory that it ever occupied.
    pub(crate) peak_bytes: u64,
}

/// Works as it is told.
pub(crate) async fn work(options: &Options) -> Result<()> {
    let tally = Tally::new(&options.place.orders()).taking(options.handler_time());
    let shift = Shift::as_told();
    let working = ours::consume(options, &tally, &shift);
    let (end, ()) = tokio::try_join!(working, listen(&shift))?;
    tell(&Told::Share(Share {
        executions: tally.counts(),
        began: tally.first_delivery().map(since_1970).transpose()?,
        ended: since_1970(end)?,
        peak_bytes: bench_stores::peak_memory()?,
    }))
}

async fn listen(shift: &Shift) -> Result<()> {
    shift.wait_for_worker().await;
    tell(&Told::Ready)?;
    let mut input = BufReader::new(tokio::io::stdin());
    input.read_line(&mut String::new()).await?;
    shift.begin();
    while !shift.is_consuming() {
        sleep(NOW_AND_THEN).await;
    }
    tell(&Told::Consuming)?;
    let mut rest = Vec::new();
    tokio::select! {
        end = input.read_to_end(&mut rest) => drop(end?),
        end = report(shift) => end?,
    }
    shift.end();
    Ok(())
}

/// Goes on until it is dropped.
async fn report(shift: &Shift) -> Result<()> {
    let mut told = 0;
    loop {
        let settled = shift.count();
        if settled != told {
            tell(&Told::Settled(settled))?;
            told = settled;
        }
        sleep(NOW_AND_THEN).await;
    }
}

fn tell(told: &Told) -> Result<()> {
    println!("{}", serde_json::to_string(told)?);
    Ok(())
}

fn since_1970(instant: Instant) -> Result<Duration> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(now.saturating_sub(instant.elapsed()))
}
