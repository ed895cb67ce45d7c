//! Reads a queue from front to end without taking anything: every letter is held, unacknowledged.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture};
use lapin::{
    Channel, Connection, Error,
    message::Delivery as RawDelivery,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions,
        BasicQosOptions, QueueDeclareOptions,
    },
    types::FieldTable,
};
use tokio::time::{sleep, timeout};

use super::ReplayError;
use crate::{
    connection::{Brokers, Link},
    error::{Source, said},
    wire::{DeadLetter, delivery::Delivery},
};

/// A letter that is held.
pub(super) struct Held {
    pub(super) tag: u64,
    pub(super) letter: DeadLetter,
}

/// An open queue. Whatever was read and not acknowledged goes back when it is closed or dropped.
pub(super) struct Reading {
    connection: Connection,
    channel: Channel,
    queue: String,
    /// Dead-letter queues out of which the broker has moved letters to this one.
    moved_from: Vec<String>,
    /// Letters that were there at the start, and have not been read.
    ahead: u32,
    /// Letters that were read, and not acknowledged.
    held: u32,
    acknowledged: bool,
}

/// Letters that are in memory at once.
const BATCH: u16 = 250;

/// A broker that delivers nothing for so long has nothing to deliver to us.
const QUIET: Duration = Duration::from_secs(5);

/// A dead link is noticed by its heartbeat before.
const RETURN_TIMEOUT: Duration = Duration::from_secs(30);

const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

impl Reading {
    pub(super) async fn open(
        mut brokers: Brokers,
        queue: &str,
        moved_from: &[String],
    ) -> Result<Self, ReplayError> {
        let Link { connection, .. } = brokers.connect("idem replay").await?;
        let unreadable = |source: Error| ReplayError::Queue {
            queue: queue.to_owned(),
            source: said(source),
        };
        let mut reading = Self {
            channel: connection.create_channel().await.map_err(unreadable)?,
            connection,
            queue: queue.to_owned(),
            moved_from: moved_from.to_vec(),
            ahead: 0,
            held: 0,
            acknowledged: false,
        };
        reading.ahead = reading.certainly_ready().await.map_err(unreadable)?;
        Ok(reading)
    }

    /// The next letters; none at the end. Those that have come since the start are not read: a
    /// replayed letter may die again, and again.
    pub(super) async fn next(&mut self) -> Result<Vec<Held>, Source> {
        if self.ahead == 0 {
            return Ok(Vec::new());
        }
        let ready = self.certainly_ready().await.map_err(said)?;
        let wanted = ready.min(self.ahead).min(BATCH.into());
        let batch = match u16::try_from(wanted) {
            Ok(wanted @ 1..) => self.take(wanted).await.map_err(said)?,
            _ => Vec::new(),
        };
        if batch.is_empty() && wanted > 0 {
            let waiting = self.ready().await.map_err(said)?;
            if waiting > 0 {
                return Err(format!(
                    "{waiting} letters wait, and the broker has delivered none for {QUIET:?}: another consumer may have \
                     the queue for itself"
                )
                .into());
            }
        }
        let read = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        self.ahead = self.ahead.saturating_sub(read);
        self.held += read;
        Ok(batch)
    }

    /// A consumer of its own for every batch: it is given no more than it is to hold. While it is
    /// there nothing is acknowledged, which would make room for more.
    async fn take(&self, wanted: u16) -> Result<Vec<Held>, Error> {
        (self.channel)
            .basic_qos(wanted, BasicQosOptions::default())
            .await?;
        let mut letters = self.consume().await?;
        let mut batch = Vec::with_capacity(wanted.into());
        while batch.len() < wanted.into() {
            match timeout(QUIET, letters.next()).await {
                Ok(Some(letter)) => batch.push(self.held(letter?)),
                // Somebody deleted the queue, or else was given the letters.
                Ok(None) | Err(_) => break,
            }
        }
        self.cancel(&letters).await?;
        while let Some(Some(letter)) = letters.next().now_or_never() {
            batch.push(self.held(letter?));
        }
        Ok(batch)
    }

    fn held(&self, raw: RawDelivery) -> Held {
        let tag = raw.delivery_tag;
        let (delivery, body) = Delivery::received(self.queue.as_str().into(), raw);
        Held {
            tag,
            letter: DeadLetter::new(delivery, body, &self.moved_from),
        }
    }

    /// Acknowledges a letter: it is gone.
    pub(super) async fn acknowledge(&mut self, tag: u64) -> Result<(), Error> {
        self.acknowledged = true;
        self.held -= 1;
        let one = BasicAckOptions { multiple: false };
        self.channel.basic_ack(tag, one).await
    }

    /// Returns the letters that are held, and closes the connection.
    pub(super) async fn close(self) {
        match timeout(RETURN_TIMEOUT, self.put_back()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(queue = self.queue, %error, "dead letters go back when their channel ends");
            }
            Err(_) => tracing::warn!(queue = self.queue, "dead letters are still going back"),
        }
        let closed = self.connection.close(200, "done".into());
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
    }

    async fn put_back(&self) -> Result<(), Error> {
        if self.acknowledged {
            self.until_acknowledged().await?;
        }
        // Tag 0 with `multiple` means all that are outstanding.
        let all = BasicNackOptions {
            multiple: true,
            requeue: true,
        };
        self.channel.basic_nack(0, all).await?;
        self.until_returned().await
    }

    /// Waits until those who look next find the letters there: a classic queue takes them back one batch after the
    /// other. Others may take some meanwhile.
    async fn until_returned(&self) -> Result<(), Error> {
        const PAUSE: Duration = Duration::from_millis(200);
        let mut back = self.ready().await?;
        while back < self.held {
            sleep(PAUSE).await;
            let before = std::mem::replace(&mut back, self.ready().await?);
            if back <= before {
                break;
            }
        }
        Ok(())
    }

    /// A quorum queue's channel that is closed with acknowledgements in flight loses them. It has
    /// dealt with them before it answers to a consumer that goes.
    async fn until_acknowledged(&self) -> Result<(), Error> {
        (self.channel)
            .basic_qos(1, BasicQosOptions::default())
            .await?;
        let passing = self.consume().await?;
        self.cancel(&passing).await
    }

    async fn consume(&self) -> Result<lapin::Consumer, Error> {
        let consumed = self.channel.basic_consume(
            self.queue.as_str().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        consumed.await
    }

    async fn cancel(&self, consumer: &lapin::Consumer) -> Result<(), Error> {
        let cancelled = (self.channel).basic_cancel(consumer.tag(), BasicCancelOptions::default());
        cancelled.await
    }

    /// How many letters wait to be delivered. That there is none is believed when the broker has said so for a second.
    async fn certainly_ready(&self) -> Result<u32, Error> {
        unless_silent(|| self.ready().boxed()).await
    }

    /// How many letters wait to be delivered.
    async fn ready(&self) -> Result<u32, Error> {
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let name = self.queue.as_str().into();
        let found = self
            .channel
            .queue_declare(name, passive, FieldTable::default());
        Ok(found.await?.message_count())
    }
}

/// Looks until there is a letter, or none was there for a second: a quorum queue whose leader does not answer within
/// 250 ms is said to be empty (`rabbit_quorum_queue`, `stat`).
async fn unless_silent<'a, E>(look: impl Fn() -> BoxFuture<'a, Result<u32, E>>) -> Result<u32, E> {
    const LOOKS: u32 = 3;
    const PAUSE: Duration = Duration::from_millis(500);
    for _ in 1..LOOKS {
        match look().await? {
            0 => sleep(PAUSE).await,
            ready => return Ok(ready),
        }
    }
    look().await
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, convert::Infallible};

    use tokio::time::Instant;

    use super::*;

    /// What is believed of a queue that is said to hold so many letters, one answer after the other, and when.
    async fn believed(answers: &[u32]) -> (u32, Duration) {
        let answers = RefCell::new(answers.iter());
        let begun = Instant::now();
        let look = || {
            let answer = *answers.borrow_mut().next().unwrap();
            async move { Ok::<_, Infallible>(answer) }.boxed()
        };
        let Ok(ready) = unless_silent(look).await;
        assert_eq!(answers.into_inner().next(), None, "it looked too seldom");
        (ready, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_empty_when_it_is_said_to_be_for_a_second() {
        assert_eq!(believed(&[7]).await, (7, Duration::ZERO));
        assert_eq!(believed(&[0, 7]).await, (7, Duration::from_millis(500)));
        assert_eq!(believed(&[0, 0, 7]).await, (7, Duration::from_secs(1)));
        assert_eq!(believed(&[0, 0, 0]).await, (0, Duration::from_secs(1)));
    }
}
