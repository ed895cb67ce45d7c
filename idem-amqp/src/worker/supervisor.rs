//! Keeps a worker connected: a lost connection is replaced, with everything on it.
// docs/decisions/0025

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join, try_join_all};
use idem_core::{ErrorChain, handler::Backoff};
use lapin::Connection;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    channels::{Consuming as _, Stopped},
    consumer::Consumer,
    delivery_processor::DeliveryProcessor,
    doctor::StartCheck,
    session_requests::SessionRequests,
};
use crate::{
    connection::{Broker, Brokers, Link, health::HealthState},
    error::{BrokerError, RunError},
};

const RECONNECT: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Consumers that share a connection.
pub(super) struct Supervisor {
    pub(super) start_check: StartCheck,
    pub(super) brokers: Brokers,
    pub(super) health: Arc<HealthState>,
    pub(super) consumers: Vec<Arc<Consumer>>,
    pub(super) session_requests: Vec<SessionRequests>,
    pub(super) draining: CancellationToken,
}

impl Supervisor {
    /// Consumes until the worker has drained. A broker that is away is waited for, for ever.
    pub(super) async fn run(&self) -> Result<(), RunError> {
        let mut brokers = self.brokers.clone();
        let mut tries = 0;
        let mut first = true;
        let mut is_away = false;
        while !self.draining.is_cancelled() {
            match self.connect(&mut brokers).await {
                None => break,
                Some(Ok(link)) => {
                    tracing::info!(broker = %link.broker, "connected");
                    let connected = Instant::now();
                    self.consume(link, first).await?;
                    (first, is_away) = (false, false);
                    // A connection that soon ends is not made again at once.
                    if connected.elapsed() > RECONNECT.longest() {
                        tries = 0;
                    }
                }
                Some(Err(error @ BrokerError::Refused { .. })) if first => {
                    return Err(error.into());
                }
                Some(Err(error)) => {
                    if !is_away {
                        tracing::warn!(
                            error = %ErrorChain::of(&error),
                            "no broker lets the worker in: it tries again until one does"
                        );
                    }
                    if first && !is_away && !tracing::dispatcher::has_been_set() {
                        say_without_a_log(&error);
                    }
                    is_away = true;
                    self.health
                        .disconnected(Some(&ErrorChain::of(&error).to_string()));
                }
            }
            tries += 1;
            tokio::select! {
                () = sleep(RECONNECT.wait(tries)) => {}
                () = self.draining.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Waits, within the grace period, for handlers whose connection has gone before them.
    pub(super) async fn finish(&self) {
        join_all(
            self.consumers
                .iter()
                .map(|consumer| consumer.finish_running()),
        )
        .await;
        // Of those that were stopped without a channel.
        join_all(self.consumers.iter().map(|consumer| consumer.drained())).await;
    }

    /// Counts the deliveries that have not ended, and will not.
    pub(super) fn interrupted(&self) {
        for consumer in &self.consumers {
            let mut running = consumer.tasks.len();
            for DeliveryProcessor {
                counters, meters, ..
            } in consumer.processors()
            {
                running -= counters.interrupted(running, meters);
            }
        }
    }

    async fn connect(&self, brokers: &mut Brokers) -> Option<Result<Link, BrokerError>> {
        tokio::select! {
            connected = brokers.connect("idem consume") => Some(connected),
            () = self.draining.cancelled() => None,
        }
    }

    /// Consumes on this connection to its end.
    async fn consume(&self, mut link: Link, first: bool) -> Result<(), RunError> {
        self.health.connected(&link.broker);
        let consumed = match self.check_at_start(&link.connection, &link.broker).await {
            Ok(()) => self.consume_all(&mut link, first).await,
            Err(unfit) => Err(unfit),
        };
        let error = if link.connection.status().connected() {
            link.watch.catch_up()
        } else {
            link.watch.why_gone().await
        };
        let error = error.map(ToString::to_string);
        self.health.disconnected(error.as_deref());
        // A dead connection cannot be closed, and must not be waited for.
        let closed = link.connection.close(200, "done".into());
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
        consumed
    }

    async fn check_at_start(
        &self,
        connection: &Connection,
        broker: &Broker,
    ) -> Result<(), RunError> {
        tokio::select! {
            checked = self.start_check.once(connection, broker, &self.consumers) => checked,
            () = self.draining.cancelled() => Ok(()),
        }
    }

    /// All consumers, until each has drained or the connection has ended or is used up.
    async fn consume_all(&self, link: &mut Link, first: bool) -> Result<(), RunError> {
        let connection = &link.connection;
        let consuming = self
            .consumers
            .iter()
            .map(|consumer| async move { end(consumer.consume(connection, first).await) });
        let receiving = self
            .session_requests
            .iter()
            .map(|session_requests| async move {
                end(session_requests.consume(connection, first).await)
            });
        let consuming = try_join(try_join_all(consuming), try_join_all(receiving));
        tokio::select! {
            consumed = consuming => match consumed {
                Ok(_) | Err(Cut::UsedUp) => Ok(()),
                Err(Cut::Unusable(error)) => Err(error),
            },
            () = link.watch.keep() => unreachable!("watching never ends"),
        }
    }
}

/// Why one consumer's end is that of all others on the connection.
enum Cut {
    /// It opens no channel any more.
    UsedUp,
    Unusable(RunError),
}

fn end(stopped: Stopped) -> Result<(), Cut> {
    match stopped {
        Stopped::Drained | Stopped::Disconnected => Ok(()),
        Stopped::UsedUp => Err(Cut::UsedUp),
        Stopped::Unusable(error) => Err(Cut::Unusable(error.into())),
    }
}

/// Writes the error to stderr, for whoever has set up no subscriber yet: the program would seem to do nothing.
fn say_without_a_log(error: &BrokerError) {
    let error = ErrorChain::of(error);
    eprintln!(
        "idem: no broker lets the worker in ({error}): it tries again until one does. Set up a subscriber of \
         `tracing` to see more"
    );
}
