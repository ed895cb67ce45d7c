//! What a handler publishes leaves with its commit, and never without it.
//!
//! You need it when a handler writes into PostgreSQL or SQLite and then has to tell others: charge a card, then tell
//! shipping. Without it, a crash between commit and publish loses the event, and an event that is published before the
//! commit may tell of what never happened. `docs/outbox.md` has the whole story.
//!
//! An atomic handler takes an [`Outbox`]; a handler of batches takes [`Outboxes`], one for each message. What it
//! publishes is written into the store's outbox by the statement that commits the handler's transaction. Its
//! [worker](crate::Worker) publishes it right after that, and removes it when the broker has confirmed that a queue has
//! it. What a worker does not get out (it was killed, the broker is away) any other worker takes 30 seconds later, or
//! an [`OutboxRelay`].
//!
//! So an event may be published twice, under one id. A consumer whose key is `message_id()`, or made of what the event
//! tells, handles it once.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")] mod example {
//! use idem_amqp::{Publication, outbox::Outbox, prelude::*, sqlx::{self, SqliteConnection}};
//! # #[derive(serde::Deserialize)] pub struct OrderPlaced { order_id: String, cents: i64 }
//!
//! #[idempotent(key = "order_id", scope = "orders.charge")]
//! async fn charge(order: OrderPlaced, outbox: Outbox, db: &mut SqliteConnection) -> Result<(), Failed> {
//!     sqlx::query("INSERT INTO charges (order_id, cents) VALUES (?, ?)")
//!         .bind(&order.order_id).bind(order.cents).execute(db).await?;
//!     outbox.publish(Publication::json("shipping", &order.order_id))?;
//!     Ok(())
//! }
//! # }
//! ```
//!
//! On a leased handler it is a compile error: nothing of one commits together. There, publish by yourself, under an id
//! that is the same in every attempt ([`Key::derive_id`](crate::Key::derive_id)).

use idem_core::{handler::IntoOutgoing, store::Finding};

pub use idem_core::{
    handler::{
        InvalidOutgoingId, Outbox, OutboxError, Outboxes, Outgoing, OutgoingContent, OutgoingId,
    },
    store::outbox::{
        GLANCED, OutboxChange, OutboxCounts, OutboxEntry, OutboxGlance, OutboxListing, OutboxState,
        SharedOutbox,
    },
};

pub(crate) mod committed;
mod failure;
mod outage;
pub(crate) mod publishing;
mod relay;
mod stats;
mod under_way;
mod updates;
pub(crate) mod watch;

pub use relay::OutboxRelay;
pub(crate) use stats::OutboxCounters;
pub use stats::OutboxStats;

use crate::{
    connection::{AmqpUrls, Brokers},
    doctor::{self, outbox::Asker},
    error::BrokerError,
    telemetry,
    wire::{Publication, outgoing},
};

impl IntoOutgoing for Publication {
    /// It keeps an id that was chosen for it.
    fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError> {
        let publication = telemetry::inject(self.or_id(&id));
        let checked = publication.check();
        checked.map_err(|error| OutboxError::Invalid(Box::new(error)))?;
        Ok(outgoing::content(publication))
    }
}

/// What can go wrong with an outbox, by what is in it and at the broker: for operators. A worker looks at its own by
/// itself, and [`Worker::doctor`](crate::Worker::doctor) tells it.
///
/// # Errors
/// If a URL is not valid. What cannot be looked at, because the store or the broker is away, is left out.
pub async fn findings(
    outbox: &SharedOutbox,
    urls: impl Into<AmqpUrls>,
) -> Result<Vec<Finding>, BrokerError> {
    let mut brokers = Brokers::parse(&urls.into())?;
    let Ok(link) = brokers.connect("idem doctor").await else {
        return Ok(doctor::outbox::look(outbox, None, Asker::Anybody).await);
    };
    let findings = doctor::outbox::look(outbox, Some(&link.connection), Asker::Anybody).await;
    let _ = link.connection.close(200, "done".into()).await;
    Ok(findings)
}

/// Messages of an outbox that go elsewhere: for operators.
///
/// # Errors
/// If the message cannot be read, or the exchange or the routing key cannot be one.
pub fn redirected(
    id: OutgoingId,
    content: OutgoingContent,
    exchange: &str,
    routing_key: &str,
) -> Result<OutboxChange, OutboxError> {
    let invalid = |error: Box<dyn std::error::Error + Send + Sync>| OutboxError::Invalid(error);
    let publication = outgoing::publication(content).map_err(|error| invalid(Box::new(error)))?;
    let publication = publication.exchange(exchange, routing_key);
    publication
        .check()
        .map_err(|error| invalid(Box::new(error)))?;
    Ok(OutboxChange::Redirect {
        id,
        target: outgoing::target(&publication),
        head: outgoing::head(&publication),
    })
}
