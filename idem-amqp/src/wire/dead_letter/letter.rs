//! A message in a dead-letter queue, as a person looks at it.

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use idem_core::{message::HeaderSource as _, settlement::Reason};
use lapin::types::ShortString;

use super::death::Death;
use crate::wire::{
    Publication,
    delivery::{Delivery, Origin},
    headers::{
        ATTEMPT, ERROR, EXCHANGE, FIRST_FAILURE, KEY, LAST_FAILURE, PARTITION, QUEUE, REASON,
        ROUTING_KEY, UNROUTED,
    },
    ladder::is_rung,
    republish::Republished,
};

/// A message in a dead-letter queue, and what is known about its end.
///
/// idem's own dead letters say everything in their headers. Of a message that RabbitMQ itself
/// dead-lettered (its delivery limit was reached, it expired, a foreign consumer rejected it)
/// only that is known which the broker's `x-death` tells: no error, no attempt, no key. So it is
/// also with one whose headers claim to be idem's, if it died in another queue than they say:
/// its publisher wrote them.
///
/// ```
/// use idem_amqp::dead_letters::DeadLetter;
///
/// fn tell(letter: &DeadLetter) {
///     let (key, error) = (letter.key().unwrap_or("no key"), letter.error().unwrap_or_default());
///     println!("{key} {}: {error}", letter.reason());
/// }
/// ```
#[derive(Clone)]
pub struct DeadLetter {
    delivery: Delivery,
    body: Vec<u8>,
    reason: String,
    death: Option<Death>,
    /// Whether idem wrote what its headers of idem's say.
    genuine: bool,
}

/// AMQP's names are no longer.
const LONGEST_NAME: usize = 255;

impl DeadLetter {
    /// Why it is here: the text of a [`Reason`](crate::dead_letters::Reason), also of a letter whose properties cannot
    /// be read; or what RabbitMQ gave as its reason, as `broker-expired`, `broker-rejected`, `broker-delivery-limit` or
    /// `broker-maxlen`; or `unknown`.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The last error, cut at 1 KiB.
    pub fn error(&self) -> Option<&str> {
        self.written(ERROR).or(self.unreadable())
    }

    /// How many attempts there were; 0 if it was never run.
    pub fn attempt(&self) -> Option<u32> {
        let attempt = self.delivery.get(ATTEMPT).filter(|_| self.genuine);
        attempt?.parse().ok()
    }

    /// The message's key, where it has one.
    pub fn key(&self) -> Option<&str> {
        self.written(KEY)
    }

    /// The queue it came from, and goes back to when it is replayed. None if it came from the very
    /// queue that it is in.
    pub fn queue(&self) -> Option<&str> {
        let told = self.death.as_ref().map(|death| death.queue.as_str());
        let queue = self.told(QUEUE).or(told)?;
        let elsewhere = queue != self.delivery.queue();
        (elsewhere && (1..=LONGEST_NAME).contains(&queue.len())).then_some(queue)
    }

    /// The exchange it was first published to; empty for the default one.
    pub fn exchange(&self) -> Option<&str> {
        let told = self.death.as_ref().map(|death| death.exchange.as_str());
        self.told(EXCHANGE).or(told)
    }

    /// The routing key it was first published with.
    pub fn routing_key(&self) -> Option<&str> {
        let told = self.death.as_ref().map(|death| death.routing_key.as_str());
        self.told(ROUTING_KEY).or(told)
    }

    /// When it failed first, to the second, if that is known.
    pub fn first_failure(&self) -> Option<SystemTime> {
        let told = self.death.as_ref().and_then(|death| death.first);
        self.told_time(FIRST_FAILURE).or(told).and_then(time)
    }

    /// When it failed for good, to the second, if that is known.
    pub fn last_failure(&self) -> Option<SystemTime> {
        let told = self.death.as_ref().and_then(|death| death.last);
        let own = self.told_time(LAST_FAILURE);
        own.max(told).and_then(time)
    }

    /// The id that its publisher gave it.
    pub fn message_id(&self) -> Option<&str> {
        let id = self.delivery.origin().properties.message_id().as_ref();
        id.map(ShortString::as_str)
    }

    /// Its content type.
    pub fn content_type(&self) -> Option<&str> {
        let kind = self.delivery.origin().properties.content_type().as_ref();
        kind.map(ShortString::as_str)
    }

    /// The body, as it was published.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// A header as text, the publisher's or one of idem's; `None` if it has none that is exact.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.delivery.get(name)
    }

    /// The names of all headers.
    pub fn header_names(&self) -> Vec<&str> {
        self.delivery.names()
    }
}

impl DeadLetter {
    /// A message as it was found. The broker may have moved letters from `moved_from` to its queue.
    pub(crate) fn new(delivery: Delivery, body: Vec<u8>, moved_from: &[String]) -> Self {
        let death = Death::last(delivery.origin().properties.headers().as_ref());
        let queue = delivery.own_text(QUEUE);
        let genuine = death
            .as_ref()
            .is_none_or(|death| agrees(death, queue, moved_from));
        let own = delivery.own_text(REASON).filter(|_| genuine);
        Self {
            reason: reason(&delivery, own, death.as_ref()),
            genuine,
            body,
            delivery,
            death,
        }
    }

    /// The message, to be published to a queue again. It keeps what is known about its end, and
    /// that in idem's own headers: the broker's are lost on the way. The reason marks it as a
    /// dead letter that was sent again.
    pub(crate) fn again(&self, queue: &str) -> Publication {
        self.republished().publication("", queue, &self.body)
    }

    /// The same, to be published to the very queue that it is in, where it stays what it is.
    pub(crate) fn copy(&self) -> Publication {
        let mut copy = self.republished();
        if self.was_on_its_way() {
            copy.text(UNROUTED, &self.reason);
        }
        copy.publication("", self.delivery.queue(), &self.body)
    }

    fn republished(&self) -> Republished {
        let before = Delivery::new(Origin {
            unreadable: None,
            comes_back_to: None,
            partition: self.written(PARTITION).map(Into::into),
            queue: self.queue().unwrap_or_default().into(),
            exchange: short(self.exchange()),
            routing_key: short(self.routing_key()),
            redelivered: false,
            properties: self.delivery.origin().properties.clone(),
        });
        let mut again = Republished::of(&before);
        if self.genuine {
            again.carry_over(&before, &[ERROR, ATTEMPT, KEY, REASON]);
        }
        if !self.was_on_its_way() {
            again.text(REASON, &self.reason);
        }
        let failures = [
            (FIRST_FAILURE, self.first_failure()),
            (LAST_FAILURE, self.last_failure()),
        ];
        for (name, time) in failures {
            if let Some(time) = time {
                again.time(name, time);
            }
        }
        again
    }

    /// What idem's header says of where the message came from; nothing if a publisher wrote it.
    fn told(&self, name: &str) -> Option<&str> {
        let believed = self.written(REASON).is_some() || self.was_on_its_way();
        self.written(name).filter(|_| believed)
    }

    /// A header of idem's; nothing if a publisher wrote it.
    fn written(&self, name: &str) -> Option<&str> {
        self.delivery.own_text(name).filter(|_| self.genuine)
    }

    fn told_time(&self, name: &str) -> Option<u64> {
        self.delivery.time(name).filter(|_| self.genuine)
    }

    /// Whether it left the retry ladder, and its queue was gone: it has not ended.
    fn was_on_its_way(&self) -> bool {
        match &self.death {
            Some(death) => is_rung(&death.queue),
            None => unrouted(&self.delivery).is_some(),
        }
    }

    /// What is wrong with its properties, if they could not be read where it is now.
    pub(crate) fn unreadable(&self) -> Option<&str> {
        self.delivery.unreadable()
    }

    /// Whether the broker may drop it if it is returned a few times more.
    pub(crate) fn is_close_to(&self, delivery_limit: u64) -> bool {
        self.delivery.is_close_to(delivery_limit)
    }
}

/// Whether the broker's word leaves idem's own possible. idem publishes its letters without `x-death`, so
/// they can have died since in the queue that they say, to which they were sent again, on the retry ladder,
/// or in a dead-letter queue, out of which they were moved on. What has died in any other queue was
/// dead-lettered by the broker alone, and its publisher wrote the headers.
fn agrees(death: &Death, queue: Option<&str>, moved_from: &[String]) -> bool {
    let is_its_dead_letter_queue =
        |died: &str| queue.is_some_and(|queue| died.strip_suffix(".dead") == Some(queue));
    death.queues.iter().all(|died| {
        Some(died.as_str()) == queue
            || is_rung(died)
            || is_its_dead_letter_queue(died)
            || moved_from.contains(died)
    })
}

/// A message that idem dead-lettered, and that was sent again, may have died in its queue since, and
/// by the broker: what idem says is older then.
fn reason(delivery: &Delivery, own: Option<&str>, death: Option<&Death>) -> String {
    if delivery.unreadable().is_some() {
        return Reason::Unreadable.as_str().to_owned();
    }
    let queue = delivery.own_text(QUEUE);
    match (own, death) {
        (Some(_), Some(death)) if queue == Some(&death.queue) => death.reason(),
        (Some(reason), _) => reason.to_owned(),
        (None, Some(death)) => death.reason(),
        (None, None) => unrouted(delivery).unwrap_or("unknown").to_owned(),
    }
}

/// What a copy says in the place of the broker, whose word is lost with it.
fn unrouted(delivery: &Delivery) -> Option<&str> {
    delivery.own_text(UNROUTED)
}

fn time(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Somebody else may have written a header that is too long for a name.
fn short(name: Option<&str>) -> ShortString {
    let name = name.unwrap_or_default();
    ShortString::try_new(name).unwrap_or_default()
}

/// Leaves out the body, which is the publisher's.
impl fmt::Debug for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetter")
            .field("reason", &self.reason())
            .field("error", &self.error())
            .field("attempt", &self.attempt())
            .field("key", &self.key())
            .field("queue", &self.queue())
            .field("message_id", &self.message_id())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
