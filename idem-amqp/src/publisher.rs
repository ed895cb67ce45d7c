//! Publishes with an id, persistent, and waits for the broker's confirm.

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tracing::Instrument as _;

use crate::wire::Publication;
use crate::{
    connection::{AmqpUrls, Brokers, Link},
    error::{BrokerError, PublishError, said},
    telemetry::{self, spans},
    topology::{self, Queue},
};

mod connection_loop;
mod frame;
mod sequence;

use connection_loop::ConnectionLoop;
use frame::LargestFrame;
pub use sequence::{SequencePublisher, Withdrawn};

/// Publishes messages that an idempotent consumer can recognise.
///
/// Every message has an id, is persistent, and counts as published only when the broker has
/// confirmed it and a queue has taken it. Messages published at the same time share a batch; a
/// lone one does not wait. Connects when first used and again after a lost connection.
///
/// Clones share the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), idem_amqp::PublishError> {
/// use idem_amqp::{Publication, Publisher};
/// use serde_json::json;
///
/// let publisher = Publisher::connect("amqp://127.0.0.1:5672/%2f").await?;
/// publisher.declare("orders.charge").await?; // if it may come before the first worker
///
/// let order = json!({"order_id": "o-17", "amount_cents": 1250});
/// publisher.publish(&Publication::json("orders.charge", &order)).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Publisher {
    brokers: Brokers,
    requests: mpsc::Sender<Request>,
    frame: LargestFrame,
}

/// `None` is for a message that was not published, because it had waited for too long.
type Answer = oneshot::Sender<Option<Result<(), PublishError>>>;

#[derive(Debug)]
pub(crate) struct Request {
    publication: Publication,
    batching: Batching,
    /// The message is published by this time, or not at all.
    until: Option<Instant>,
    answer: Answer,
}

/// Whether a message is published with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Batching {
    /// It is published in one batch with others.
    Shared,
    /// It is published by itself: if the broker closes the channel, it is because of this message.
    Alone,
}

/// Messages that wait for the batch before them.
const QUEUED: usize = 1024;

fn gone() -> PublishError {
    PublishError::Unconfirmed("the publisher's task has ended".into())
}

impl Publisher {
    /// Connects to the broker, or to one node of a cluster, see [`AmqpUrls`].
    ///
    /// # Errors
    /// If a URL is not valid or no node can be reached now.
    ///
    /// # Cancel safety
    /// A dropped call leaves no connection.
    pub async fn connect(urls: impl Into<AmqpUrls>) -> Result<Self, PublishError> {
        let brokers = Brokers::parse(&urls.into())?;
        let mut line = ConnectionLoop::new(brokers.clone());
        line.open().await?;
        Ok(Self::spawn(brokers, line))
    }

    /// A publisher that connects when it is first used.
    pub(crate) fn lazy(brokers: Brokers) -> Self {
        let line = ConnectionLoop::new(brokers.clone());
        Self::spawn(brokers, line)
    }

    /// Another one, which connects when it is first used.
    pub(crate) fn on_another_connection(&self) -> Self {
        Self::lazy(self.brokers.clone())
    }

    fn spawn(brokers: Brokers, line: ConnectionLoop) -> Self {
        let (requests, queued) = mpsc::channel(QUEUED);
        let frame = line.frame();
        tokio::spawn(line.serve(queued));
        Self {
            brokers,
            requests,
            frame,
        }
    }

    /// Publishes a message and waits until the broker has confirmed that a queue has it.
    ///
    /// # Errors
    /// After [`PublishError::Unconfirmed`] the message may have arrived: publish it again, with
    /// the same id. [`PublishError::TooLarge`] comes before anything is sent.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have published.
    pub async fn publish(&self, publication: &Publication) -> Result<(), PublishError> {
        self.publish_in(publication, Batching::Shared).await
    }

    /// The same, in no batch with others.
    pub(crate) async fn publish_alone(
        &self,
        publication: &Publication,
    ) -> Result<(), PublishError> {
        self.publish_in(publication, Batching::Alone).await
    }

    async fn publish_in(
        &self,
        publication: &Publication,
        batching: Batching,
    ) -> Result<(), PublishError> {
        let published = self.publish_until(publication, batching, None).await;
        published.unwrap_or_else(|| Err(gone()))
    }

    /// The same, unless the message has waited in memory until this time: then nothing was sent, and this is `None`.
    pub(crate) async fn publish_until(
        &self,
        publication: &Publication,
        batching: Batching,
        until: Option<Instant>,
    ) -> Option<Result<(), PublishError>> {
        let published = async {
            let published = self.request(publication, batching, until).await;
            let published = published.transpose();
            if let Some(published) = &published {
                spans::published(published);
            }
            published
        };
        published.instrument(spans::publish(publication)).await
    }

    async fn request(
        &self,
        publication: &Publication,
        batching: Batching,
        until: Option<Instant>,
    ) -> Result<Option<()>, PublishError> {
        publication.check()?;
        let (answer, answered) = oneshot::channel();
        let request = Request {
            publication: self.in_context(publication),
            batching,
            until,
            answer,
        };
        self.requests.send(request).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?.transpose()
    }

    /// The message with its trace context. That is never the reason why a message is too large.
    fn in_context(&self, publication: &Publication) -> Publication {
        let traced = telemetry::inject(publication.clone());
        match self.frame.check(&traced, 0) {
            Ok(()) => traced,
            Err(_) => publication.clone(),
        }
    }

    /// Declares a queue and its dead-letter queue as a worker would, so that messages can be
    /// published before the first worker starts: give the queue that you give the worker. Of a super stream, its
    /// exchange and its partitions; the queues of what fails in a stream are its handlers'.
    ///
    /// # Errors
    /// If the broker cannot be reached, the queue exists with other arguments, or there can be no such super stream.
    ///
    /// # Cancel safety
    /// A dropped call may have declared all that the queue needs, a part of it, or nothing. Call it again.
    pub async fn declare(&self, queue: impl Into<Queue>) -> Result<(), PublishError> {
        let queue = queue.into();
        if let Some(reason) = queue.impossible_partitions() {
            return Err(PublishError::NoSuchStream {
                stream: queue.name().into(),
                reason: reason.into(),
            });
        }
        let mut brokers = self.brokers.clone();
        let Link {
            connection, broker, ..
        } = brokers.connect("idem declare").await?;
        let unavailable = |error: lapin::Error| BrokerError::unavailable(&broker, said(error));
        let channel = connection.create_channel().await.map_err(unavailable)?;
        let mut established = Ok(());
        for queue in queue.partitions() {
            if established.is_ok() {
                established = topology::establish(&channel, &queue).await;
            }
        }
        let _ = connection.close(200, "done".into()).await;
        Ok(established?)
    }
}
