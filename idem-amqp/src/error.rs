//! Why a worker or a publisher could not do its job.
//!
//! You need it to tell one failure from another, or to show an error with its causes
//! ([`ErrorChain`]). Other modules have errors of their own: `CallError` in
//! [`client`](crate::client), `StoreError` in [`store`](crate::store).
//!
//! ```
//! use idem_amqp::{BuildError, MemoryStore, Worker, error::ErrorChain};
//!
//! let error: BuildError = Worker::builder(MemoryStore::new()).build("amqp://127.0.0.1").unwrap_err();
//! assert!(matches!(error, BuildError::NothingToConsume));
//! println!("cannot start: {}", ErrorChain::of(&error));
//! ```

use std::error::Error;

use idem_core::store::Finding;

mod library;
mod topology;

pub use idem_core::ErrorChain;
pub(crate) use library::{library_error, said};
pub(crate) use topology::Refusal;
pub use topology::{Permission, TopologyError, TopologyObject, TopologyProblem};

pub(crate) type Source = Box<dyn Error + Send + Sync>;

/// Why a broker cannot be used: its URL is not one, or no node of it lets us in.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The URL is not one of an AMQP broker.
    #[error("the AMQP URL is not valid: {reason}")]
    InvalidUrl {
        /// What is wrong, without the URL itself, which holds a password.
        reason: String,
    },
    /// The broker answered, and does not let us in.
    #[error("the broker at {broker} refused the connection: check user, password and vhost")]
    Refused {
        /// Host, port and vhost, of all nodes.
        broker: String,
        /// What the broker said.
        #[source]
        source: Source,
    },
    /// The broker cannot be reached.
    #[error("the broker at {broker} cannot be reached")]
    Unavailable {
        /// Host, port and vhost, of all nodes.
        broker: String,
        /// What went wrong.
        #[source]
        source: Source,
    },
}

idem_core::debug_as_chain!(BrokerError);

impl BrokerError {
    pub(crate) fn unavailable(broker: &impl std::fmt::Display, source: impl Into<Source>) -> Self {
        Self::Unavailable {
            broker: broker.to_string(),
            source: source.into(),
        }
    }
}

/// Why a worker cannot be built: what it was given cannot work together.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The worker was given nothing to consume.
    #[error("the worker has no handler: add one with `.consume::<handler>(\"queue\")`")]
    NothingToConsume,
    /// Two handlers consume one queue: each message would reach one of them by chance.
    #[error("two handlers consume the queue `{queue}`: give each a queue of its own")]
    QueueTwice {
        /// The queue's name.
        queue: String,
    },
    /// Two different handlers record by one constraint: what one of them has done would be a duplicate to the other.
    #[error(
        "the handlers `{one}` and `{other}` are both recorded by `{constraint}`, so a message that one of them has done \
         would be taken for a duplicate by the other, and lost: give each a table of its own"
    )]
    ConstraintTwice {
        /// The constraint.
        constraint: String,
        /// The one handler's type.
        one: String,
        /// The other's.
        other: String,
    },
    /// Two different handlers have one scope: what one of them has done would be a duplicate to the other.
    #[error(
        "the handlers `{one}` and `{other}` have the scope `{scope}` in common, so a message that one of \
         them has done would be acknowledged as a duplicate by the other, and lost: give each a scope of its own \
         with `scope = \"…\"`"
    )]
    ScopeTwice {
        /// The scope.
        scope: String,
        /// The one handler's type.
        one: String,
        /// The other's.
        other: String,
    },
    /// The queue's name is empty, or too long to have a dead-letter queue; or that of its dead-letter exchange is.
    #[error(
        "`{queue}` cannot be a queue's name here, or its dead letters cannot go where it says: use 1 to 250 bytes"
    )]
    QueueName {
        /// The name as it was given.
        queue: String,
    },
    /// An exchange or a routing key cannot be called so.
    #[error(
        "the queue `{queue}` cannot be bound so: `.bind(…)` takes the name of an exchange, 1 to 255 bytes, and a routing key of at most 255; by the default exchange, which has no name, a queue gets what is sent to its own name"
    )]
    Binding {
        /// The queue's name.
        queue: String,
    },
    /// The queue is its own dead-letter queue: what is given up would come back at once, for ever.
    #[error(
        "the queue `{queue}` cannot be its own dead-letter queue: name another one with `.dead_letters(…)`"
    )]
    DeadLettersToItself {
        /// The queue's name.
        queue: String,
    },
    /// An atomic handler's policy is to fail open: it cannot run without its store.
    #[error(
        "the handler of the queue `{queue}` is atomic and cannot fail open: leave `store_outage` \
         out of its policy, or take the connection from `State<…>` to make it leased"
    )]
    AtomicFailsOpen {
        /// The queue's name.
        queue: String,
    },
    /// An atomic handler's policy is to observe: its writes commit together with its claim.
    #[error(
        "the handler of the queue `{queue}` is atomic and cannot be observed, because it never runs \
         without its claim: leave `enforcement` out of its policy, or take the connection from `State<…>` \
         to make it leased"
    )]
    AtomicObserved {
        /// The queue's name.
        queue: String,
    },
    /// An atomic handler is consumed plainly, or its policy is to run what has no key: its writes commit together with
    /// its claim.
    #[error(
        "the handler of the queue `{queue}` is atomic and never runs without its claim: leave `keyless` and `enforcement` out of its \
         policy and consume it with `consume`, or take the connection from `State<…>` to make it leased"
    )]
    AtomicUnclaimed {
        /// The queue's name.
        queue: String,
    },
    /// The handler publishes, and its store cannot keep what it publishes.
    #[error(
        "the handler of the queue `{queue}` has an `Outbox`, and the store keeps none: use `PostgresStore` or `SqliteStore`"
    )]
    NoOutbox {
        /// The queue's name.
        queue: String,
    },
    /// The handler's messages are numbered, and cannot be kept so.
    #[error("the numbered messages of the queue `{queue}` cannot be handled: {reason}")]
    SequenceOptions {
        /// The queue's name.
        queue: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The queue cannot delay messages as [`Queue::native_retries`](crate::Queue::native_retries)
    /// asks for.
    #[error("the queue `{queue}` cannot have native retries: {reason}")]
    NativeRetries {
        /// The queue's name.
        queue: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The queue cannot be consumed in sessions as it is asked for.
    #[error("the queue `{queue}` cannot serve sessions: {reason}")]
    Sessions {
        /// The queue's name.
        queue: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The routes of a queue cannot work together.
    #[error("the queue `{queue}` cannot have these routes: {reason}")]
    Routes {
        /// The queue's name.
        queue: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A stream is consumed as a queue, or a queue as a stream.
    #[error("`{queue}` cannot be consumed so: {reason}")]
    Stream {
        /// The name of the stream, or of the queue.
        queue: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A URL is not one of an AMQP broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

idem_core::debug_as_chain!(BuildError);

/// Why a worker stopped, or never started.
///
/// ```
/// use idem_amqp::RunError;
///
/// /// What a process manager makes of it: 78 says that another start would end likewise.
/// fn exit_status(error: &RunError) -> u8 {
///     match error {
///         RunError::Build(_) | RunError::Topology(_) => 78,
///         _ => 1,
///     }
/// }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The worker could not be built: [`WorkerBuilder::run_until`](crate::WorkerBuilder::run_until) does both.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The broker does not let the worker in.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The worker could not work, or would lose messages for certain.
    #[error("the worker is not fit to start: {}", each(findings))]
    Unfit {
        /// Why, and what to change.
        findings: Vec<Finding>,
    },
    /// A queue or an exchange is not there, is not as the worker declares it, or may not be used.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

idem_core::debug_as_chain!(RunError);

/// Why a message is not known to have arrived.
///
/// ```no_run
/// # use idem_amqp::{Publication, PublishError, Publisher};
/// /// Publishes again what may not have arrived. Its id stays the same, so a copy is known for one.
/// async fn insist(publisher: &Publisher, order: &Publication) -> Result<(), PublishError> {
///     let mut tries = 1..;
///     loop {
///         match publisher.publish(order).await {
///             Err(PublishError::Unconfirmed(_)) if tries.next() < Some(5) => {}
///             ended => return ended,
///         }
///     }
/// }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// No queue took the message.
    #[error("no queue is bound for `{routing_key}` on exchange `{exchange}`: declare it first")]
    Unroutable {
        /// The exchange, empty for the default one.
        exchange: String,
        /// The routing key: the queue's name on the default exchange.
        routing_key: String,
    },
    /// The broker refused the message: a queue is full, say.
    #[error("the broker refused the message for `{routing_key}`")]
    Refused {
        /// The routing key.
        routing_key: String,
    },
    /// The connection was lost before the confirm: the message may have arrived. Publish it again
    /// with the same id, and an idempotent consumer handles it once.
    #[error("the message was not confirmed, it may have arrived")]
    Unconfirmed(#[source] Source),
    /// The broker cannot be used now, or not at all.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// What numbers the messages has no usable name.
    #[error("a producer's name of {bytes} bytes is not possible: use 1 to 255")]
    ProducerName {
        /// How long it is.
        bytes: usize,
    },
    /// The message goes elsewhere than the numbered ones before it: those who are given only some of
    /// them would wait for the others. Nothing was sent.
    #[error(
        "the messages numbered before go to {first}, this one to {other}: make a numbered publisher \
         for each with `Publisher::sequence`"
    )]
    OtherDestination {
        /// Where the first message went.
        first: String,
        /// Where this one is to go.
        other: String,
    },
    /// The message's headers do not fit into one frame of the broker's. Nothing was sent.
    #[error(
        "the message's headers need a frame of {bytes} bytes, and the broker takes {most}: shorten them, \
         or move them into the body"
    )]
    TooLarge {
        /// What they need.
        bytes: usize,
        /// What the broker takes.
        most: usize,
    },
    /// A numbered message cannot be confirmed as it is. It keeps its number, and goes before all that
    /// its stream is given later: so this is told until it was dealt with, as the text says.
    #[error(
        "the message with number {number}{} cannot be published: {cure}",
        if *.left_behind { ", which another call left behind," } else { "" },
    )]
    Stuck {
        /// The number that it keeps.
        number: u64,
        /// Whether it is one that another call left behind, and not the message of this one.
        left_behind: bool,
        /// What to do.
        cure: &'static str,
        /// What the broker said.
        #[source]
        source: Source,
    },
    /// A queue or an exchange is not as it is declared here, or may not be declared.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// There can be no super stream as it is to be declared.
    #[error("`{stream}` cannot be declared: {reason}")]
    NoSuchStream {
        /// Its name.
        stream: String,
        /// What is wrong.
        reason: String,
    },
    /// The message cannot be expressed as JSON, or one of its texts is too long for AMQP.
    #[error("the message cannot be encoded")]
    Encode(#[source] Source),
}

idem_core::debug_as_chain!(PublishError);

fn each(findings: &[Finding]) -> String {
    let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

#[cfg(test)]
pub(crate) mod tests;
