//! Publishes messages with numbers, so that a consumer needs one mark for all of them.

use std::{sync::Arc, time::Duration};

use idem_core::{ErrorChain, handler::Backoff};
use tokio::time::{sleep, timeout};

use super::{Batching, Publisher};
use crate::error::PublishError;
use crate::wire::Publication;

mod last;
mod ledger;
mod objection;
mod stream;

use last::Last;
use ledger::{Caller, Taken};
use objection::Objection;
use stream::{OpenNumber, Stream};

/// Publishes one stream of messages, each with the number after the one before: for handlers whose
/// key is `sequence()`, of which a store keeps one mark instead of a record for each message.
///
/// ```no_run
/// # use idem_amqp::{Publication, Publisher};
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let publisher = Publisher::connect("amqp://127.0.0.1:5672/%2f").await?;
/// let readings = publisher.sequence("till-4")?;
/// readings.publish(&Publication::json("readings", &21.5)).await?;
/// # Ok(()) }
/// ```
///
/// A number belongs to one message for good. So a message that is not known to have arrived is
/// published again, with its number, until the broker has confirmed it: a consumer recognises the
/// copies, and no number is missing. If the caller gives up before, nobody knows whether the
/// message has arrived, and it **keeps its number**:
///
/// | after an error, or a dropped call | |
/// |---|---|
/// | publish the same [`Publication`] again | it goes out with the number it has |
/// | publish another one | the one left behind goes out before it |
/// | [`settle`](Self::settle) | what was left behind goes out |
/// | [`withdraw`](Self::withdraw) its number | the number goes out without it: of a message that the broker takes in no case |
/// | end the process | if the message has not arrived it is lost, and its number missing; nothing waits for that, because the numbers of this process end there |
///
/// The numbers begin with 0, in an epoch of their own: a process that starts again begins another
/// one. What must survive the end of its publisher needs an outbox, and ids of its own.
///
/// All messages go to one place, to be consumed by one handler there: a consumer that is given only
/// some of them waits for the others. Use one of these for each queue, or an exchange whose queues
/// are given all of them.
///
/// Clones publish the same stream. Calls at the same time share batches, as with [`Publisher`].
#[derive(Debug, Clone)]
pub struct SequencePublisher {
    publisher: Publisher,
    stream: Arc<Stream>,
    timeout: Option<Duration>,
}

/// The longest name of a producer, in bytes.
const LONGEST_PRODUCER: usize = 255;

const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

impl Publisher {
    /// Begins a stream of numbered messages, in the name of this producer: a till, a device, a
    /// service. The same name in every process is fine; each stream is told apart by its epoch.
    ///
    /// # Errors
    /// If the name is empty or longer than 255 bytes.
    pub fn sequence(&self, producer: &str) -> Result<SequencePublisher, PublishError> {
        if producer.is_empty() || producer.len() > LONGEST_PRODUCER {
            return Err(PublishError::ProducerName {
                bytes: producer.len(),
            });
        }
        Ok(SequencePublisher {
            publisher: self.clone(),
            stream: Arc::new(Stream::new(producer)),
            timeout: None,
        })
    }
}

impl SequencePublisher {
    /// How long one call goes on publishing what is not confirmed; as long as it is waited for,
    /// unless set.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many numbers may be in use from the lowest one on that is not confirmed, at least 1; 256
    /// unless set. Keep it below the handlers' window. Holds for all clones.
    #[must_use]
    pub fn in_flight(self, numbers: u32) -> Self {
        self.stream.ledger().room(numbers.max(1));
        self
    }

    /// The producer in whose name it publishes.
    pub fn producer(&self) -> String {
        self.stream.producer.to_string()
    }

    /// What tells this stream from others in the same name.
    pub fn epoch(&self) -> String {
        self.stream.epoch.to_string()
    }

    /// How many messages have a number and are not confirmed, those on their way included.
    pub fn unconfirmed(&self) -> usize {
        self.stream.ledger().unconfirmed()
    }

    /// Gives the message the next number and publishes it, until the broker has confirmed that a
    /// queue has it. What earlier calls left behind goes first.
    ///
    /// # Errors
    /// At once, without a number: [`PublishError::OtherDestination`] and [`PublishError::TooLarge`].
    ///
    /// At once, with a number that it keeps: [`PublishError::Stuck`], if no queue takes this message or one
    /// that was left behind, or the broker closes the channel because of it. It says which, and what to do.
    ///
    /// Otherwise only when the [timeout](Self::timeout) is at its end, with the last error. Then
    /// publish the same publication again, and it keeps its number if it has one.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have published; its message keeps its number, as after an
    /// error.
    pub async fn publish(&self, publication: &Publication) -> Result<(), PublishError> {
        publication.check()?;
        let frame = &self.publisher.frame;
        frame.check(publication, self.stream.stamp_bytes())?;
        self.stream.ledger().bound_for(publication)?;
        let last = Last::default();
        self.patiently(self.publish_in_turn(publication, &last), &last)
            .await
    }

    async fn publish_in_turn(
        &self,
        publication: &Publication,
        last: &Last,
    ) -> Result<(), PublishError> {
        while let Some(one) = self.stream.enter(publication).await {
            let caller = one.caller(publication);
            self.publish_until_confirmed(&one, caller, last).await?;
            one.confirmed(caller);
            if caller == Caller::Own {
                break;
            }
        }
        Ok(())
    }

    /// Publishes what earlier calls left behind: before the process ends, say.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn settle(&self) -> Result<(), PublishError> {
        let last = Last::default();
        self.patiently(self.settle_all(&last), &last).await
    }

    async fn settle_all(&self, last: &Last) -> Result<(), PublishError> {
        while let Some(one) = self.stream.left_behind() {
            self.publish_until_confirmed(&one, Caller::Another, last)
                .await?;
            one.confirmed(Caller::Another);
        }
        Ok(())
    }

    /// Gives up the message that has this number, and returns it; nothing if none has it that is not
    /// confirmed. For a message that can never be published as it is: see [`PublishError::Stuck`].
    ///
    /// The number is published without the message, and marked (header `idem-withdrawn`): a handler
    /// with `key = sequence()` does not see it, and no later number waits for it. The message is the
    /// caller's again; published once more, it has a number of its own. The number goes the way of the
    /// message that was confirmed last.
    ///
    /// If an earlier try has brought the message to the queue after all
    /// ([`Withdrawn::may_have_arrived`]), it may run; published once more, it may run a second time.
    ///
    /// Calls that are publishing it are waited for, and no other begins to.
    ///
    /// # Errors
    /// As [`publish`](Self::publish). The number is given up all the same, and goes out before the next
    /// message; call this again to have the message.
    ///
    /// # Cancel safety
    /// As after an error.
    pub async fn withdraw(&self, number: u64) -> Result<Option<Withdrawn>, PublishError> {
        let last = Last::default();
        self.patiently(self.withdraw_in_turn(number, &last), &last)
            .await
    }

    async fn withdraw_in_turn(
        &self,
        number: u64,
        last: &Last,
    ) -> Result<Option<Withdrawn>, PublishError> {
        let one = match self.stream.withdraw(number).await {
            None => return Ok(None),
            Some(Err(taken)) => return Ok(Some(taken.into())),
            Some(Ok(one)) => one,
        };
        self.publish_until_confirmed(&one, Caller::Own, last)
            .await?;
        let taken = one.open.taken();
        one.confirmed(Caller::Own);
        Ok(Some(taken.into()))
    }

    /// Within the timeout, or else the last error.
    async fn patiently<T>(
        &self,
        publishing: impl Future<Output = Result<T, PublishError>>,
        last: &Last,
    ) -> Result<T, PublishError> {
        let Some(longest) = self.timeout else {
            return publishing.await;
        };
        if let Ok(published) = timeout(longest, publishing).await {
            return published;
        }
        Err(last.take().unwrap_or_else(|| {
            let error = format!("the broker has not confirmed within {longest:?}");
            PublishError::Unconfirmed(error.into())
        }))
    }

    /// Publishes it again and again, until it is confirmed or that cannot help.
    async fn publish_until_confirmed(
        &self,
        one: &OpenNumber<'_>,
        caller: Caller,
        last: &Last,
    ) -> Result<(), PublishError> {
        let (stamped, number) = (self.stream.stamp(&one.open), one.open.number);
        let mut batching = Batching::Shared;
        let mut tries = 0;
        loop {
            let known = one.set_may_have_arrived(true);
            let Err(error) = self.publisher.publish_in(&stamped, batching).await else {
                return Ok(());
            };
            let objection = Objection::of(&error);
            match objection.filter(|_| batching == Batching::Alone) {
                // Nor has it by any other try.
                Some(Objection::Message) => {
                    one.set_may_have_arrived(false);
                }
                None if passed_by(&error) => {}
                _ => {
                    one.set_may_have_arrived(known);
                }
            }
            match objection {
                Some(objection) if batching == Batching::Alone || objection.is_certain() => {
                    return Err(PublishError::Stuck {
                        number,
                        left_behind: caller == Caller::Another,
                        cure: objection.cure(),
                        source: error.into(),
                    });
                }
                // It may have been another message of the batch.
                Some(_) => batching = Batching::Alone,
                None if passes(&error) => {}
                None => return Err(error),
            }
            tries += 1;
            let text = ErrorChain::of(&error).to_string();
            tracing::warn!(
                number,
                tries,
                error = text,
                "not confirmed, published again"
            );
            last.put(error);
            sleep(AGAIN.wait(tries)).await;
        }
    }
}

/// A message whose number was given up: [`SequencePublisher::withdraw`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Withdrawn {
    /// The caller's again.
    pub publication: Publication,
    /// Whether the broker may have it: a try was not answered.
    pub may_have_arrived: bool,
}

impl From<Taken> for Withdrawn {
    fn from(taken: Taken) -> Self {
        Self {
            publication: (*taken.publication).clone(),
            may_have_arrived: taken.may_have_arrived,
        }
    }
}

/// Whether the broker may have the message all the same.
fn passed_by(error: &PublishError) -> bool {
    matches!(error, PublishError::Unconfirmed(_))
}

/// Whether the same message may be confirmed another time.
fn passes(error: &PublishError) -> bool {
    matches!(
        error,
        PublishError::Unconfirmed(_) | PublishError::Broker(_) | PublishError::Refused { .. }
    )
}
