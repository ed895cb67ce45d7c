//! A relay: publishes what others have committed, and have not published.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{OutboxCounters, OutboxStats, SharedOutbox, publishing::Publishing, watch::watch};
use crate::{
    connection::{AmqpUrls, Brokers},
    error::BrokerError,
    publisher::Publisher,
};

/// How long a relay that is to stop waits for what is being published.
const GRACE: Duration = Duration::from_secs(15);

/// Publishes what is in a store's outbox.
///
/// Every worker with a handler that publishes does this by itself. A relay of its own is for a service that only
/// publishes (an HTTP API, a job), or beside workers that are seldom up. Any number of them, and of workers, share an
/// outbox.
///
/// ```no_run
/// # #[cfg(feature = "postgres")] async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_amqp::{PostgresStore, outbox::OutboxRelay, shutdown_signal};
///
/// let store = PostgresStore::connect("postgres://shop@db.example/shop").await?;
/// let relay = OutboxRelay::new(store.outbox(), "amqp://127.0.0.1:5672/%2f")?;
/// println!("{}", relay.run_until(shutdown_signal()).await);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a relay does nothing until it runs"]
pub struct OutboxRelay {
    outbox: SharedOutbox,
    brokers: Brokers,
    counters: Arc<OutboxCounters>,
}

impl OutboxRelay {
    /// A relay from this outbox to this broker, or to the nodes of a cluster. Nothing is connected yet.
    ///
    /// # Errors
    /// If a URL is not valid.
    pub fn new(outbox: SharedOutbox, urls: impl Into<AmqpUrls>) -> Result<Self, BrokerError> {
        let brokers = Brokers::parse(&urls.into())?;
        Ok(Self {
            outbox,
            brokers,
            counters: Arc::default(),
        })
    }

    /// Publishes until `shutdown` resolves, and then for at most 15 s what is under way. A store or a broker that is
    /// away is waited for.
    ///
    /// # Cancel safety
    /// What was being published when this is dropped is published again by another, or by the next.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> OutboxStats {
        let counters = self.counters;
        let stopping = CancellationToken::new();
        let watching = watch(Arc::clone(&self.outbox), &counters, drop);
        let publishing = Publishing::alone(
            self.outbox,
            Publisher::lazy(self.brokers),
            Arc::clone(&counters),
        );
        let stop = async {
            shutdown.await;
            stopping.cancel();
            // A broker that has blocked its connections confirms nothing.
            sleep(GRACE).await;
        };
        tokio::select! {
            // The stop first: a signal is listened for before anything is connected.
            biased;
            () = stop => {}
            () = publishing.run(stopping.clone()) => {}
            never = watching => match never {},
        }
        counters.stats()
    }
}
