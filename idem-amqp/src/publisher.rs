//! Publishes with an id, persistent, and waits for the broker's confirm.

use tokio::sync::{mpsc, oneshot};

use crate::{
    Queue,
    connection::{AmqpUrls, Brokers, Link, Unreachable},
    error::PublishError,
    topology,
};

mod line;
mod publication;

use line::Line;
pub use publication::Publication;

/// Publishes messages that an idempotent consumer can recognise.
///
/// Every message has an id, is persistent, and counts as published only when the broker has
/// confirmed it and a queue has taken it. Messages published at the same time share a batch; a
/// lone one does not wait. Connects when first used and again after a lost connection.
///
/// Clones share the connection.
#[derive(Debug, Clone)]
pub struct Publisher {
    brokers: Brokers,
    requests: mpsc::Sender<Request>,
}

type Answer = oneshot::Sender<Result<(), PublishError>>;

#[derive(Debug)]
pub(crate) struct Request {
    publication: Publication,
    answer: Answer,
}

/// Messages that wait for the batch before them.
const QUEUED: usize = 1024;

impl Publisher {
    /// Connects to the broker, or to one node of a cluster, see [`AmqpUrls`].
    ///
    /// # Errors
    /// If a URL is not valid or no node can be reached now.
    pub async fn connect(urls: impl Into<AmqpUrls>) -> Result<Self, PublishError> {
        let brokers =
            Brokers::parse(&urls.into()).map_err(|reason| PublishError::InvalidUrl { reason })?;
        let mut line = Line::new(brokers.clone());
        line.open().await?;
        Ok(Self::spawn(brokers, line))
    }

    /// A publisher that connects when it is first used.
    pub(crate) fn lazy(brokers: Brokers) -> Self {
        let line = Line::new(brokers.clone());
        Self::spawn(brokers, line)
    }

    fn spawn(brokers: Brokers, line: Line) -> Self {
        let (requests, queued) = mpsc::channel(QUEUED);
        tokio::spawn(line.serve(queued));
        Self { brokers, requests }
    }

    /// Publishes a message and waits until the broker has confirmed that a queue has it.
    ///
    /// # Errors
    /// After [`PublishError::Unconfirmed`] the message may have arrived: publish it again, with
    /// the same id.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have published.
    pub async fn publish(&self, publication: &Publication) -> Result<(), PublishError> {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            publication: publication.clone(),
            answer,
        };
        let gone = || PublishError::Unconfirmed("the publisher's task has ended".into());
        self.requests.send(request).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Declares a queue and its dead-letter queue as a worker would, so that messages can be
    /// published before the first worker starts.
    ///
    /// # Errors
    /// If the broker cannot be reached, or the queue exists with other arguments.
    pub async fn declare(&self, queue: impl Into<Queue>) -> Result<(), PublishError> {
        let mut brokers = self.brokers.clone();
        let Link {
            connection, broker, ..
        } = brokers.connect("idem declare").await?;
        let unavailable = |source: lapin::Error| PublishError::Unavailable {
            broker: broker.to_string(),
            source: source.into(),
        };
        let channel = connection.create_channel().await.map_err(unavailable)?;
        let established = topology::establish(&channel, &queue.into()).await;
        let _ = connection.close(200, "done".into()).await;
        Ok(established?)
    }
}

impl From<Unreachable> for PublishError {
    fn from(none: Unreachable) -> Self {
        Self::Unavailable {
            broker: none.brokers,
            source: none.source,
        }
    }
}
