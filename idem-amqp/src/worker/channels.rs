//! One channel after the other on a connection, and why each ended.

use std::{fmt::Display, time::Duration};

use idem_core::{Backoff, ErrorChain};
use lapin::{Connection, Error};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{connection::health::HealthState, error::TopologyError, wire::incident::Incident};

/// Why a consumer no longer consumes.
pub(super) enum Stopped {
    /// The worker is draining, and this consumer has drained.
    Drained,
    /// The connection has ended.
    Disconnected,
    /// The connection is there, and opens no channel any more.
    UsedUp,
    /// The queue cannot be used, and waiting will not help.
    Unusable(TopologyError),
}

/// Why one channel of a consumer ended.
pub(super) enum Ended {
    Drained,
    /// Nothing has come for a while, and it was closed.
    Idle,
    /// The broker cancelled the consumer: its queue was deleted, or its node went away.
    Cancelled,
    /// A settlement could not be sent.
    Unsettled,
    Failed(Error),
    Unusable(TopologyError),
    /// There was none: it could not be opened.
    NotOpened(Error),
}

/// How often in a row a channel is tried to be opened on a connection that is there. The client never
/// opens one again under a number whose channel the broker has closed, and there are not many numbers
/// (`channel_max`): a queue that stays refused uses them up.
const NOT_OPENED: u32 = 3;

const REOPEN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// The channels of one queue's consumer.
pub(super) struct Channels<'a> {
    /// The queue's name.
    pub(super) queue: &'a str,
    pub(super) health: &'a HealthState,
    pub(super) draining: &'a CancellationToken,
}

impl Channels<'_> {
    /// Consumes on this connection, with a new channel whenever one has ended, until the worker
    /// drains, or the connection ends or is used up.
    pub(super) async fn consume<Fut>(
        &self,
        connection: &Connection,
        first: bool,
        consume_once: impl Fn() -> Fut,
    ) -> Stopped
    where
        Fut: Future<Output = Ended>,
    {
        let mut tries = 0;
        // In a row; none before the first could be opened: then another connection helps no more.
        let mut not_opened = None;
        loop {
            let opened = Instant::now();
            match consume_once().await {
                Ended::Drained => return Stopped::Drained,
                Ended::Unusable(error) if first && tries == 0 && error.is_lasting() => {
                    return Stopped::Unusable(error);
                }
                _ if !connection.status().connected() => return Stopped::Disconnected,
                Ended::NotOpened(error) => {
                    not_opened = not_opened.map(|times| times + 1);
                    if not_opened >= Some(NOT_OPENED) && !self.draining.is_cancelled() {
                        self.health.record_incident(
                            Incident::ConnectionBroken,
                            self.queue,
                            Some(&error),
                        );
                        return Stopped::UsedUp;
                    }
                    self.tell(Ended::NotOpened(error));
                }
                ended => {
                    not_opened = Some(0);
                    self.tell(ended);
                }
            }
            tries = if opened.elapsed() > REOPEN.longest() {
                1
            } else {
                tries + 1
            };
            tokio::select! {
                () = sleep(REOPEN.wait(tries)) => {}
                () = self.draining.cancelled() => return Stopped::Drained,
            }
        }
    }

    /// Of a channel that ended although its connection has not.
    fn tell(&self, ended: Ended) {
        let (incident, error) = match ended {
            Ended::Unusable(error) => (
                Incident::QueueRefused,
                Some(ErrorChain::of(&error).to_string()),
            ),
            Ended::Cancelled => (Incident::ConsumerCancelled, None),
            Ended::Failed(error) | Ended::NotOpened(error) => {
                (Incident::ChannelClosed, Some(error.to_string()))
            }
            // The task that sends acks has said why.
            Ended::Unsettled | Ended::Drained | Ended::Idle => {
                return self.health.not_consuming(self.queue, None);
            }
        };
        let error = error.as_ref().map(|error| error as &dyn Display);
        self.health.record_incident(incident, self.queue, error);
        self.health.not_consuming(self.queue, error);
    }
}
