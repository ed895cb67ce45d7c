//! Sends requests and waits for their replies, again until the deadline, so that each is handled once.
//!
//! You need it to ask another service something over RabbitMQ and wait for the answer. [`Client`]
//! sends, [`Call`] is one request under way, [`CallError`] says what is known if it failed, or no reply came.
//! Requests that must survive a crash of the client itself go through a
//! [`session`](crate::session).
//!
//! ```no_run
//! use idem_amqp::{Client, Request, client::CallError};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct CreateLease { name: String }
//!
//! impl Request for CreateLease {
//!     type Reply = u64;
//!     type Error = String;
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let leases = Client::connect("amqp://127.0.0.1:5672/%2f", "leases").await?;
//! match leases.call(&CreateLease { name: "ann".into() }).await {
//!     Ok(lease) => println!("lease {}", lease.reply),
//!     Err(CallError::Refused(why)) => println!("refused: {why}"),
//!     Err(other) => return Err(other.into()),
//! }
//! # Ok(()) }
//! ```

use std::{fmt, sync::Arc, time::Duration};

use idem_core::Request;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::{
    connection::{AmqpUrls, Brokers, health::HealthState},
    wire::Incidents,
};

mod builder;
mod call;
mod call_state;
mod connection_loop;
mod error;
mod message;
mod ongoing_call;
mod pending_calls;
mod reply;
mod request_number;
mod retry_interval;
mod session;
mod stats;

pub use builder::ClientBuilder;
pub use call::Call;
use connection_loop::{ConnectionLoop, Order};
pub use error::{Again, CallError, ClientError};
use message::Message;
use pending_calls::PendingCalls;
pub use reply::Replied;
pub use request_number::{RequestNumber, Unanswered};
#[cfg(feature = "testing")]
pub use session::unconnected;
pub use session::{Session, SessionBuilder, SessionCall, SessionError};
pub use stats::ClientStats;

/// Sends requests to a worker's queue, and waits for their replies.
///
/// ```no_run
/// use idem_amqp::{Client, Request, client::CallError};
/// use serde::{Deserialize, Serialize};
///
/// // The contract, which the worker's handler has, too.
/// #[derive(Serialize, Deserialize)]
/// struct CreateLease { name: String }
///
/// #[derive(Serialize, Deserialize)]
/// struct Lease { id: u64 }
///
/// #[derive(Debug, Serialize, Deserialize)]
/// enum LeaseError { Taken { by: String } }
///
/// impl Request for CreateLease {
///     type Reply = Lease;
///     type Error = LeaseError;
/// }
///
/// # async fn lease() -> Result<(), Box<dyn std::error::Error>> {
/// let leases = Client::connect("amqp://127.0.0.1:5672/%2f", "leases").await?;
/// match leases.call(&CreateLease { name: "printer".into() }).await {
///     Ok(lease) => println!("lease {} (replayed: {})", lease.reply.id, lease.replayed),
///     Err(CallError::Refused(LeaseError::Taken { by })) => println!("{by} has it"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) }
/// ```
///
/// A request whose reply does not come is sent again under the same key, until it does or the
/// deadline has passed; the worker handles it once, and repeats the reply. What can still go wrong is
/// in [`CallError`], and, case by case, in `docs/replies.md`.
///
/// Clones share the connection, and so do clients for other queues, made by [`to`](Self::to): a
/// process needs one client, however many calls are in flight. When it is lost it is made again,
/// and calls that wait are sent again. It is closed when the last clone and the last call are gone.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    queue: Arc<str>,
    deadline: Duration,
    timeout: Duration,
}

/// What clones have together.
struct Shared {
    orders: mpsc::Sender<Order>,
    pending_calls: Arc<PendingCalls>,
    health: Arc<HealthState>,
}

/// Where replies go.
///
/// ```no_run
/// # async fn example() -> Result<(), idem_amqp::client::ClientError> {
/// use idem_amqp::{Client, client::ReplyTo};
///
/// let leases = Client::builder().queue("leases").reply_to(ReplyTo::Direct);
/// let leases = leases.connect("amqp://127.0.0.1:5672/%2f").await?;
/// # drop(leases);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ReplyTo {
    /// To a queue of the client's own: exclusive, named by the broker, gone with the connection. The
    /// client's user needs the permissions *configure* and *read* on `amq\.gen.*`.
    #[default]
    Queue,
    /// By RabbitMQ's [direct reply-to](https://www.rabbitmq.com/docs/direct-reply-to), without a
    /// queue: nothing to declare, no permission needed.
    ///
    /// No broker keeps a reply for a client that is not there at that very moment, and the worker
    /// is not told that it was lost. A call does not mind: its request is sent again, and the reply
    /// repeated.
    Direct,
}

/// Requests that wait to be sent, beside those that wait for a reply.
const QUEUED: usize = 256;

impl Client {
    /// Connects to the broker, for requests to this queue. The queue need not exist yet; a call
    /// ends with [`CallError::Unroutable`] until it does.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    /// A dropped call leaves no connection.
    pub async fn connect(
        urls: impl Into<AmqpUrls>,
        queue: impl Into<String>,
    ) -> Result<Self, ClientError> {
        Self::builder().queue(queue).connect(urls).await
    }

    /// A client in the making, with other settings than the usual ones.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use idem_amqp::{Client, client::ReplyTo};
    /// # async fn connect() -> Result<(), idem_amqp::client::ClientError> {
    /// let leases = Client::builder()
    ///     .queue("leases")
    ///     .deadline(Duration::from_secs(60))
    ///     .timeout(Duration::from_secs(2))
    ///     .reply_to(ReplyTo::Direct)
    ///     .connect("amqp://127.0.0.1:5672/%2f")
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// Sends a request and waits for its reply, when awaited.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use idem_amqp::{Client, Request, client::CallError};
    /// # async fn call<R>(client: Client, request: R, order_id: &str) -> Result<R::Reply, CallError<R::Error>>
    /// # where R: Request + serde::Serialize {
    /// let replied = client
    ///     .call(&request)
    ///     .key(order_id)
    ///     .deadline(Duration::from_secs(10))
    ///     .await?;
    /// # Ok(replied.reply) }
    /// ```
    ///
    /// Errors, cancel safety and settings: see [`Call`].
    pub fn call<R: Request + Serialize>(&self, request: &R) -> Call<R> {
        Call::new(self.clone(), Message::json(&self.queue, request))
    }

    /// A session with the server of this queue, in the making: its requests are numbered, and their
    /// answers kept for as long as they are awaited. See [`Session`].
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self.clone())
    }

    /// A key that the server of this queue gives, for a later [`call`](Self::call) with that
    /// [`key`](Call::key). The server must serve sessions.
    ///
    /// # Errors
    /// If the server does not answer before the client's deadline, or serves no sessions.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing behind.
    pub async fn reserve(&self) -> Result<String, SessionError> {
        session::reserve(self).await
    }

    /// A client for requests to another queue, over the same connection.
    pub fn to(&self, queue: impl Into<String>) -> Self {
        Self {
            queue: queue.into().into(),
            ..self.clone()
        }
    }

    /// The queue that takes the requests.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// What this client, its clones and those for other queues have done so far.
    pub fn counts(&self) -> ClientStats {
        self.shared.pending_calls.counts()
    }

    /// What has happened to the client's connections so far.
    pub fn incidents(&self) -> Incidents {
        self.shared.health.incidents()
    }

    async fn start(builder: ClientBuilder, brokers: Brokers) -> Result<Self, ClientError> {
        let health = Arc::<HealthState>::default();
        let pending_calls = PendingCalls::new();
        let mut line = ConnectionLoop {
            brokers: brokers.watched_by(Arc::clone(&health)),
            reply_to: builder.reply_to,
            pending_calls: Arc::clone(&pending_calls),
        };
        let open = line.open().await?;
        let (orders, ordered) = mpsc::channel(QUEUED);
        tokio::spawn(line.serve(open, ordered));
        Ok(Self {
            shared: Arc::new(Shared {
                orders,
                pending_calls,
                health,
            }),
            queue: builder.queue.into(),
            deadline: builder.deadline,
            timeout: builder.timeout,
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("queue", &self.queue)
            .field("deadline", &self.deadline)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
