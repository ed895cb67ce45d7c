//! Several messages at once: one transaction, and one acknowledgement for all.

use std::time::Instant;

use bench_orders::{Options, Order, Tally};
use lapin::options::{BasicAckOptions, BasicNackOptions};

use super::intake::{Acks, Intake, offset};
use crate::{Result, naive::HandleTogether};

/// Takes what has arrived, up to so many messages, and the next ones when it has acknowledged these.
///
/// If the transaction fails, nothing is acknowledged: the connection is closed by the end of the process, and all come
/// again.
pub(crate) async fn together(
    options: &Options,
    mut handler: impl HandleTogether,
    most: usize,
    tally: &Tally,
) -> Result<Instant> {
    let mut intake = Intake::open(options, Acks::Each).await?;
    let mut left = options.place.messages;
    while left > 0 {
        let deliveries = intake.some(most).await?;
        let orders = deliveries.iter().map(|it| Order::decode(&it.data));
        let orders = orders.collect::<Result<Vec<_>>>()?;
        if let Some(last) = deliveries.last().and_then(offset) {
            handler.reach(last);
        }
        let failed = handler.handle(&orders, tally).await?;
        for place in &failed {
            deliveries[*place].nack(for_good()).await?;
        }
        let mut acknowledged =
            (deliveries.iter().enumerate()).filter(|(it, _)| !failed.contains(it));
        if let Some((_, last)) = acknowledged.next_back() {
            last.ack(BasicAckOptions { multiple: true }).await?;
        }
        for order in &orders {
            tally.done(&order.id);
        }
        left -= deliveries.len();
    }
    intake.close().await
}

fn for_good() -> BasicNackOptions {
    BasicNackOptions {
        requeue: false,
        ..BasicNackOptions::default()
    }
}
