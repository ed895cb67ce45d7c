//! Several worker processes on one queue, and the check of what they did together.

mod crew;

use std::time::Duration;

use bench_driver::scale::Together;
use bench_orders::{Options as Consumer, Tally, nothing_is_left};
use tokio::time::timeout;

use self::crew::Crew;
use crate::{Result, charges::Charges, work::Share};

/// Nobody takes this long; something has got stuck.
const LIMIT: Duration = Duration::from_mins(5);

/// Who works, and how many.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "crew")]
pub(crate) struct Options {
    #[command(flatten)]
    consumer: Consumer,
    /// How many processes
    #[arg(long)]
    workers: usize,
}

/// Lets them empty the queue, checks, tells.
pub(crate) async fn measure(options: &Options) -> Result<()> {
    let Options { consumer, workers } = options;
    let place = &consumer.place;
    let charges = Charges::of(consumer).await?;
    let crew = Crew::hire(consumer, *workers)?;
    let worked = timeout(LIMIT, crew.work(place.messages)).await;
    let shares = worked.map_err(|_| format!("not done after {LIMIT:?}"))??;
    let tally = Tally::new(&place.orders());
    for share in &shares {
        tally.add(&share.executions);
    }
    tally.executions(true)?;
    nothing_is_left(place).await?;
    if let Some(charges) = charges {
        charges.number(tally.orders()).await?;
    }
    let together = together(place.messages, &shares)?;
    println!("{}", serde_json::to_string(&together)?);
    Ok(())
}

fn together(messages: usize, shares: &[Share]) -> Result<Together> {
    let began = shares.iter().filter_map(|share| share.began).min();
    let ended = shares.iter().map(|share| share.ended).max();
    let took = began
        .zip(ended)
        .map(|(began, ended)| ended.saturating_sub(began));
    let executions = |share: &Share| share.executions.iter().sum();
    Ok(Together {
        messages: messages.try_into()?,
        executions: shares.iter().map(executions).collect(),
        seconds: took.unwrap_or_default().as_secs_f64(),
        peak_bytes: shares.iter().map(|share| share.peak_bytes).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_is_from_the_first_message_to_the_last_end() {
        let share = |began: Option<u64>, ended, executions| Share {
            executions,
            began: began.map(Duration::from_secs),
            ended: Duration::from_secs(ended),
            peak_bytes: ended,
        };
        let shares = [
            share(Some(7), 20, vec![1, 0, 1]),
            share(Some(5), 19, vec![0, 1, 0]),
            share(None, 12, vec![0, 0, 0]),
        ];
        let together = together(4, &shares).unwrap();
        assert!((together.seconds - 15.0).abs() < 1e-9);
        assert_eq!(together.executions, [2, 1, 0]);
        assert_eq!(together.peak_bytes, [20, 19, 12]);
    }
}
