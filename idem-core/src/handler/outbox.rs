//! What a handler publishes: kept while it runs, committed together with what it writes.
//!
//! An atomic handler takes an [`Outbox`], a handler of batches takes [`Outboxes`]. What must stay true:
//!
//! - What is taken out goes into the completion's own transaction, or nowhere.
//! - A message's id is the same in every attempt.

use std::{
    error::Error,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use crate::{message::Key, random};

/// Where an atomic handler puts what it publishes. It leaves when the handler's writes are committed, and never without
/// them.
///
/// A failed attempt publishes nothing, nor does a duplicate. What was committed is published until the broker has
/// confirmed it: at once by the worker that committed it, or by any other worker when that one was killed. So it may be
/// published twice, under the same id.
///
/// | | |
/// |---|---|
/// | handlers | atomic ones, with a `&mut` connection or transaction; a leased one does not compile with it |
/// | stores | PostgreSQL, SQLite |
/// | id | `KEY#0`, `KEY#1`, … in the order of the calls, unless the message has an id of its own |
/// | at most | 1,000 messages and 16 MiB for one message that is handled |
///
/// ```
/// use std::time::Duration;
/// use idem_core::handler::{IntoOutgoing, Outbox, OutboxError, OutgoingContent};
///
/// /// A door has messages of its own: `Publication` in `idem-amqp`.
/// struct Event(&'static str);
///
/// impl IntoOutgoing for Event {
///     fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError> {
///         Ok(OutgoingContent { message_id: id, target: "shipping".into(), head: Vec::new(), body: self.0.into() })
///     }
/// }
///
/// let outbox = Outbox::for_key(&idem_core::Key::new("orders.charge", "o-17")?);
/// outbox.publish(Event("charged"))?;
/// outbox.after(Duration::from_hours(24)).publish(Event("remind"))?;
/// let ids: Vec<_> = outbox.messages().iter().map(|it| it.message_id.clone()).collect();
/// assert_eq!(ids, ["orders.charge:o-17#0", "orders.charge:o-17#1"]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Outbox {
    buffer: Arc<Buffer>,
    /// The call of the handler that it was given to. What comes from another one is refused.
    call: u64,
    due: Due,
    lane: Option<String>,
}

/// The [`Outbox`] of each message of a batch, in their order.
///
/// ```
/// use idem_core::{Failed, handler::{Batch, Outboxes}};
/// # use idem_core::handler::{IntoOutgoing, OutboxError, OutgoingContent};
/// # struct Order { id: String }
/// # struct Shipped(String);
/// # impl IntoOutgoing for Shipped {
/// #     fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError> {
/// #         Ok(OutgoingContent { message_id: id, target: "shipping".into(), head: Vec::new(), body: self.0.into() })
/// #     }
/// # }
///
/// fn tell(orders: &Batch<Order>, outboxes: &Outboxes) -> Result<(), Failed> {
///     for (order, outbox) in orders.iter().zip(outboxes.iter()) {
///         outbox.publish(Shipped(order.id.clone()))?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Outboxes(Vec<Outbox>);

/// What was published while one message is handled.
struct Buffer {
    /// The key of the message that is handled; `None` outside of a handler.
    key: Option<Key>,
    messages: Mutex<Messages>,
}

#[derive(Default)]
struct Messages {
    list: Vec<Outgoing>,
    bytes: usize,
    /// The call that publishes now.
    call: u64,
}

impl Messages {
    /// Takes all that was published. No more is taken from the call that has published it.
    fn take(&mut self) -> Vec<Outgoing> {
        let next = Self {
            call: self.call + 1,
            ..Self::default()
        };
        std::mem::replace(self, next).list
    }
}

/// A message on its way out: as the store keeps it until the broker has confirmed it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outgoing {
    /// Names its row.
    pub id: OutgoingId,
    /// By which its consumers know it.
    pub message_id: String,
    /// Where it goes, for people.
    pub target: String,
    /// What the door needs to publish it, beside the body: an exchange, properties. The store does not look into it.
    pub head: Vec<u8>,
    /// The content.
    pub body: Vec<u8>,
    /// When it is to leave.
    pub due: Due,
    /// Messages of one lane leave one after the other, in the order of their commits.
    pub lane: Option<String>,
}

impl Outgoing {
    /// How long a message that is published at once is left to the process that commits it.
    pub const LEASE: Duration = Duration::from_secs(30);

    /// Whether nobody else is to publish it, for a while.
    pub fn is_published_by_who_commits(&self) -> bool {
        self.due == Due::AtOnce && self.lane.is_none()
    }

    /// Whether somebody may take it when it is committed.
    pub fn is_due(&self) -> bool {
        matches!(self.due, Due::AtOnce | Due::NOBODY_WAITED_FOR)
    }

    /// When it may be taken by whoever is first: for stores.
    pub fn free_from(&self) -> FreeFrom {
        match self.due {
            Due::AtOnce if self.lane.is_none() => FreeFrom::Then(Self::LEASE),
            Due::AtOnce => FreeFrom::Then(Duration::ZERO),
            Due::After(delay) => FreeFrom::Then(delay),
            Due::At(time) => {
                let since = time
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap_or_default();
                FreeFrom::Time(since.as_micros().try_into().unwrap_or(i64::MAX))
            }
        }
    }

    /// Nobody publishes it at once.
    pub(crate) fn wait_for_nobody(&mut self) {
        if self.due == Due::AtOnce {
            self.due = Due::NOBODY_WAITED_FOR;
        }
    }

    /// Whether it can be cancelled until it is due: for stores.
    pub fn is_later(&self) -> bool {
        !matches!(self.due, Due::AtOnce | Due::NOBODY_WAITED_FOR)
    }
}

/// When a message may be taken by whoever is first, by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreeFrom {
    /// It is free so long after it was written.
    Then(Duration),
    /// It is free at this time, in microseconds since 1970; or at once, if that has passed.
    Time(i64),
}

impl Due {
    /// Nobody publishes it at once.
    pub(crate) const NOBODY_WAITED_FOR: Self = Self::After(Duration::ZERO);
}

/// Names a row of the outbox. Later ones are greater, to about a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutgoingId(u128);

/// When a message is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Due {
    /// It leaves when it is committed, by the process that commits it; by others when that has not happened within
    /// [`Outgoing::LEASE`].
    AtOnce,
    /// It leaves so long after it is committed.
    After(Duration),
    /// It leaves at this time of the store's clock, or at once if that has passed.
    At(SystemTime),
}

/// What a door makes of a message that is published: see [`IntoOutgoing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingContent {
    /// By which its consumers know it.
    pub message_id: String,
    /// Where it goes, for people.
    pub target: String,
    /// What the door needs to publish it, beside the body.
    pub head: Vec<u8>,
    /// The content.
    pub body: Vec<u8>,
}

/// A message that an [`Outbox`] takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be published by an outbox",
    label = "not a message to publish",
    note = "with `idem-amqp` it is a `Publication`"
)]
pub trait IntoOutgoing {
    /// Makes what the store keeps. `id` is the message's id, unless it has one of its own.
    ///
    /// # Errors
    /// If it can never be published.
    fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError>;
}

/// Why a message cannot be put into the outbox. Nothing of it is published.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// There are too many already, or they are too long.
    #[error(
        "the outbox of one message takes {} messages and {} MiB at most: publish fewer, or a reference to what is long",
        Outbox::MOST,
        Outbox::MOST_BYTES >> 20
    )]
    Full,
    /// The call of the handler that had this outbox has ended, or a store has taken the outbox: what is published now
    /// would never be committed.
    #[error(
        "this outbox has ended: publish before the handler returns, or before the store takes the outbox"
    )]
    Ended,
    /// It can never be published.
    #[error("the message cannot be published")]
    Invalid(#[source] Box<dyn Error + Send + Sync>),
}

crate::debug_as_chain!(OutboxError);

impl Outbox {
    /// How many messages one handled message may publish.
    pub const MOST: usize = 1000;
    /// How many bytes these may have, all together.
    pub const MOST_BYTES: usize = 16 << 20;

    /// The outbox of a message with this key: for calling a handler by hand, in a unit test.
    pub fn for_key(key: &Key) -> Self {
        Self {
            buffer: Arc::new(Buffer {
                key: Some(key.clone()),
                messages: Mutex::default(),
            }),
            call: 0,
            due: Due::AtOnce,
            lane: None,
        }
    }

    /// An outbox outside of a handler, for a transaction of your own. A message that has no id gets one that nobody
    /// else has: published by a transaction that is made again, it is another message. With something that names the
    /// work, [`for_key`](Self::for_key) gives the same ids each time.
    pub fn outside() -> Self {
        Self {
            buffer: Arc::new(Buffer {
                key: None,
                messages: Mutex::default(),
            }),
            call: 0,
            due: Due::AtOnce,
            lane: None,
        }
    }

    /// Publishes a message when the handler's writes are committed.
    ///
    /// # Errors
    /// If it can never be published, or the handler has published too much already. By `?` the attempt fails.
    pub fn publish(&self, message: impl IntoOutgoing) -> Result<(), OutboxError> {
        let mut messages = self.lock();
        if messages.call != self.call {
            return Err(OutboxError::Ended);
        }
        if let Some(lane) = &self.lane {
            check_lane(lane)?;
        }
        let row = OutgoingId::new();
        let id = match &self.buffer.key {
            Some(key) => key.derive_id(messages.list.len()),
            None => row.to_string(),
        };
        let content = message.into_outgoing(id)?;
        let bytes = messages.bytes + content.head.len() + content.body.len();
        if messages.list.len() == Self::MOST || bytes > Self::MOST_BYTES {
            return Err(OutboxError::Full);
        }
        messages.bytes = bytes;
        messages.list.push(Outgoing {
            id: row,
            message_id: content.message_id,
            target: content.target,
            head: content.head,
            body: content.body,
            due: self.due,
            lane: self.lane.clone(),
        });
        Ok(())
    }

    /// What is published with this leaves so long after the commit. Until then it is a row of the store, and can be
    /// cancelled.
    pub fn after(&self, delay: Duration) -> Self {
        Self {
            due: Due::After(delay),
            ..self.clone()
        }
    }

    /// What is published with this leaves at this time, by the clock of the store; or at once, if that has passed.
    pub fn at(&self, time: SystemTime) -> Self {
        Self {
            due: Due::At(time),
            ..self.clone()
        }
    }

    /// What is published with this leaves in the order of the commits, among all that has the same name of an order: a
    /// customer's, say. One message that cannot leave stops those behind it, and no others.
    pub fn ordered_by(&self, name: impl Into<String>) -> Self {
        Self {
            lane: Some(name.into()),
            ..self.clone()
        }
    }

    /// What was published so far: for tests of handlers.
    pub fn messages(&self) -> Vec<Outgoing> {
        self.lock().list.clone()
    }

    /// Takes what was published, and leaves it to whoever takes it from the store first: nobody publishes it at once.
    /// After that the outbox takes no more. This is for stores, and their transactions outside of a handler.
    ///
    /// # Errors
    /// If a store has taken it already, or the call of its handler has ended: nothing is left to take.
    pub fn take_for_anybody(&self) -> Result<Vec<Outgoing>, OutboxError> {
        let mut messages = self.lock();
        if messages.call != self.call {
            return Err(OutboxError::Ended);
        }
        let mut outgoing = messages.take();
        outgoing.iter_mut().for_each(Outgoing::wait_for_nobody);
        Ok(outgoing)
    }

    /// The outbox for the next call of the handler: what an earlier one has published is gone, and its outbox takes
    /// no more.
    pub(crate) fn of_next_call(&self) -> Self {
        let mut messages = self.lock();
        let call = messages.call + 1;
        *messages = Messages {
            call,
            ..Messages::default()
        };
        Self {
            call,
            ..self.clone()
        }
    }

    /// Takes all that was published. No more is taken from the call that has published it.
    pub(crate) fn take(&self) -> Vec<Outgoing> {
        self.lock().take()
    }

    /// Held for one look or one write; what is written under it is never half done.
    fn lock(&self) -> std::sync::MutexGuard<'_, Messages> {
        let messages = self.buffer.messages.lock();
        messages.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A database has to be able to keep it, and to find it by an index.
fn check_lane(lane: &str) -> Result<(), OutboxError> {
    if lane.len() > 255 || lane.contains('\0') {
        let error = "the name of an order has at most 255 bytes, and no NUL";
        return Err(OutboxError::Invalid(error.into()));
    }
    Ok(())
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("key", &self.buffer.key)
            .field("messages", &self.lock().list.len())
            .finish_non_exhaustive()
    }
}

impl Outboxes {
    /// Outboxes for calling a handler by hand, in a unit test: one for each of so many messages, with made-up keys.
    pub fn of(messages: usize) -> Self {
        let key = |i: usize| Key::new("batch", i as u64).expect("a number is a part of a key");
        Self((0..messages).map(|i| Outbox::for_key(&key(i))).collect())
    }

    pub(crate) fn new(outboxes: Vec<Outbox>) -> Self {
        Self(outboxes)
    }
}

impl Deref for Outboxes {
    type Target = [Outbox];

    fn deref(&self) -> &[Outbox] {
        &self.0
    }
}

impl OutgoingId {
    /// One that nobody else has.
    pub(crate) fn new() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis();
        let random: [u8; 10] = random::numbered();
        let mut low = [0; 16];
        low[6..].copy_from_slice(&random);
        Self(millis << 80 | u128::from_be_bytes(low))
    }
}

/// Written as a UUID.
impl fmt::Display for OutgoingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        f.write_str(&parts.join("-"))
    }
}

impl std::str::FromStr for OutgoingId {
    type Err = InvalidOutgoingId;

    fn from_str(text: &str) -> Result<Self, InvalidOutgoingId> {
        let hex: String = text.chars().filter(|it| *it != '-').collect();
        let is_hex = hex.len() == 32 && hex.bytes().all(|it| it.is_ascii_hexdigit());
        let number = is_hex
            .then(|| u128::from_str_radix(&hex, 16).ok())
            .flatten();
        number.map(Self).ok_or(InvalidOutgoingId)
    }
}

/// It is not the id of a row of the outbox.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a message in the outbox: write it as `idem outbox list` shows it")]
pub struct InvalidOutgoingId;
crate::debug_as_chain!(InvalidOutgoingId);

#[cfg(test)]
mod tests;
