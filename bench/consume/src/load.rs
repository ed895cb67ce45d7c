//! Fills a queue.

use bench_driver::consume::QueueKind;
use bench_orders::Place;

use crate::Result;

/// What to fill.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    place: Place,
    /// The queue's type
    #[arg(long, value_enum)]
    kind: QueueKind,
}

/// Declares the queue and publishes its orders.
pub(crate) async fn fill(options: &Options) -> Result<()> {
    bench_orders::fill(&options.place, options.kind).await
}
