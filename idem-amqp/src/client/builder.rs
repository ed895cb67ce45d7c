//! A client in the making.

use std::time::Duration;

use super::{Client, ClientError, ReplyTo};
use crate::connection::{AmqpUrls, Brokers};

/// A client in the making: its queue, how long it waits, where replies go.
///
/// ```no_run
/// # async fn example() -> Result<(), idem_amqp::client::ClientError> {
/// use std::time::Duration;
/// use idem_amqp::Client;
///
/// let leases = Client::builder()
///     .queue("leases")
///     .timeout(Duration::from_secs(1))
///     .deadline(Duration::from_secs(10))
///     .connect("amqp://127.0.0.1:5672/%2f")
///     .await?;
/// # drop(leases);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a client is made by `connect`"]
pub struct ClientBuilder {
    pub(super) queue: String,
    pub(super) deadline: Duration,
    pub(super) timeout: Duration,
    pub(super) reply_to: ReplyTo,
}

impl ClientBuilder {
    /// How long a call may take, unless set.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

    /// How long the first try of a call may take, unless set.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    pub(super) fn new() -> Self {
        Self {
            queue: String::new(),
            deadline: Self::DEFAULT_DEADLINE,
            timeout: Self::DEFAULT_TIMEOUT,
            reply_to: ReplyTo::default(),
        }
    }

    /// The queue that takes the requests: the one that a worker consumes. Required.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// How long a call may take, all tries included; 30 s unless set. See
    /// [`Call::deadline`](super::Call::deadline).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long the first try of a call may take; 5 s unless set. See
    /// [`Call::timeout`](super::Call::timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Where replies go; to a queue of the client's own unless set.
    pub fn reply_to(mut self, reply_to: ReplyTo) -> Self {
        self.reply_to = reply_to;
        self
    }

    /// Connects to the broker, or to one node of a cluster, see [`AmqpUrls`].
    ///
    /// # Errors
    /// If no queue was named, a URL is not valid, no node can be reached now, or the client may not
    /// have a queue for replies.
    ///
    /// # Cancel safety
    /// A dropped call leaves no connection.
    pub async fn connect(self, urls: impl Into<AmqpUrls>) -> Result<Client, ClientError> {
        if self.queue.is_empty() {
            return Err(ClientError::NoQueue);
        }
        let brokers = Brokers::parse(&urls.into())?;
        Client::start(self, brokers).await
    }
}
