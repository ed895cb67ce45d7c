//! Publishes with an id, persistent, and waits for the broker's confirm.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::{Queue, connection::Broker, error::PublishError, topology};

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
    broker: Arc<Broker>,
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
    /// Connects to the broker.
    ///
    /// # Errors
    /// If the URL is not valid or the broker cannot be reached now.
    pub async fn connect(url: &str) -> Result<Self, PublishError> {
        let broker = Broker::parse(url).map_err(|reason| PublishError::InvalidUrl { reason })?;
        let mut line = Line::new(broker.clone());
        line.open().await?;
        Ok(Self::spawn(broker, line))
    }

    /// A publisher that connects when it is first used.
    pub(crate) fn lazy(broker: Broker) -> Self {
        let line = Line::new(broker.clone());
        Self::spawn(broker, line)
    }

    fn spawn(broker: Broker, line: Line) -> Self {
        let (requests, queued) = mpsc::channel(QUEUED);
        tokio::spawn(line.serve(queued));
        Self {
            broker: Arc::new(broker),
            requests,
        }
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
        let unavailable = |source: lapin::Error| PublishError::Unavailable {
            broker: self.broker.to_string(),
            source: source.into(),
        };
        let connection = self
            .broker
            .connect("idem declare")
            .await
            .map_err(unavailable)?;
        let channel = connection.create_channel().await.map_err(unavailable)?;
        let established = topology::establish(&channel, &queue.into()).await;
        let _ = connection.close(200, "done".into()).await;
        Ok(established?)
    }
}
