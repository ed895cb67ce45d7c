//! A route of mq-bridge: from the queue, through its deduplication, to a handler, and nowhere else.

use std::time::Instant;

use bench_orders::{Options, Order, Tally};
use mq_bridge::{
    CanonicalMessage, Handled, HandlerError, Route,
    anyhow::anyhow,
    models::{AmqpConfig, DeduplicationMiddleware, Endpoint, EndpointType, Middleware},
};

use crate::{Result, nobody::Watch, settled::Settled, store::Store};

/// idem's own default, 72 hours.
const RETENTION_SECONDS: u64 = 72 * 60 * 60;

/// Returns when the broker had everything acknowledged, and its connection was gone.
pub(crate) async fn consume(options: &Options, tally: &Tally) -> Result<Instant> {
    let watch = Watch::open(&options.place).await?;
    let store = Store::of(options)?;
    let settled = Settled::register()?;
    let input = Endpoint::new(EndpointType::Amqp(queue(options)))
        .add_middleware(deduplication(&store))
        // The last is the first that sees a message: copies, too.
        .add_middleware(Settled::middleware());
    let tally = tally.clone();
    let route = Route::new(input, Endpoint::new(EndpointType::Null)).with_handler(
        move |message: CanonicalMessage| {
            let tally = tally.clone();
            async move {
                tally.work().await;
                execute(&message, &tally)
            }
        },
    );
    let running = route.run("bench").await?;
    settled.wait_for(options.place.messages).await;
    running.stop().await;
    running.join().await?;
    watch.wait_for_nobody().await
}

fn queue(options: &Options) -> AmqpConfig {
    AmqpConfig::new(&options.place.amqp_url)
        .with_queue(&options.place.queue)
        .with_prefetch_count(options.prefetch)
}

fn deduplication(store: &Store) -> Middleware {
    Middleware::Deduplication(DeduplicationMiddleware {
        store: Some(store.url().to_owned()),
        key: Some("${payload:id}".to_owned()),
        ..DeduplicationMiddleware::new(RETENTION_SECONDS)
    })
}

fn execute(message: &CanonicalMessage, tally: &Tally) -> Result<Handled, HandlerError> {
    let order = Order::decode(&message.payload);
    let order = order.map_err(|error| HandlerError::NonRetryable(anyhow!(error)))?;
    tally.execute(&order);
    Ok(Handled::Ack)
}
