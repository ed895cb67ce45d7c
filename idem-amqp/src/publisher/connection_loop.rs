//! The publisher's own connection: batches, confirms and returns.

use std::{error::Error as _, future::pending, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lapin::{
    Channel, Confirmation, Connection, Error,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{Batching, LargestFrame, Request};
use crate::wire::Publication;
use crate::{
    connection::{Brokers, Link},
    error::{BrokerError, ErrorChain, PublishError, said},
};

/// Messages that are published before their confirms are awaited.
const BATCH: usize = 256;

/// A broker that does not confirm for so long is taken for lost.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// How often is looked whether it has blocked the connection.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// How long a channel is used at least, though the broker refuses what is published on it.
const BETWEEN_CHANNELS: Duration = Duration::from_secs(1);

/// The connection, opened when needed.
pub(super) struct ConnectionLoop {
    brokers: Brokers,
    open: Option<Open>,
    frame: LargestFrame,
}

struct Open {
    link: Link,
    channel: Channel,
    since: Instant,
    /// Whether the broker refused something that was published on the channel.
    refused: bool,
}

impl ConnectionLoop {
    pub(super) fn new(brokers: Brokers) -> Self {
        Self {
            brokers,
            open: None,
            frame: LargestFrame::default(),
        }
    }

    /// What the broker takes.
    pub(super) fn frame(&self) -> LargestFrame {
        self.frame.clone()
    }

    /// Serves until all publishers are gone, then closes the connection.
    pub(super) async fn serve(mut self, mut queued: mpsc::Receiver<Request>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let taken = tokio::select! {
                taken = queued.recv_many(&mut batch, BATCH) => taken,
                () = self.watch() => unreachable!("watching never ends"),
            };
            if taken == 0 {
                break;
            }
            let alone = |request: &mut Request| request.batching == Batching::Alone;
            let alone: Vec<_> = batch.extract_if(.., alone).collect();
            self.publish(&mut batch).await;
            for request in alone {
                self.publish(&mut vec![request]).await;
            }
        }
        if let Some(open) = self.open {
            let _ = open.link.connection.close(200, "done".into()).await;
        }
    }

    async fn watch(&mut self) {
        match &mut self.open {
            Some(open) => open.link.watch.keep().await,
            None => pending().await,
        }
    }

    /// Makes sure that there is a channel with confirms.
    pub(super) async fn open(&mut self) -> Result<(), PublishError> {
        if let Some(open) = &mut self.open
            && !open.channel.status().connected()
        {
            open.link.watch.catch_up();
            self.open = None;
        }
        if let Some(open) = &mut self.open {
            return open.renew().await;
        }
        self.open = Some(self.connect().await?);
        Ok(())
    }

    async fn connect(&mut self) -> Result<Open, PublishError> {
        let link = self.brokers.connect("idem publish").await?;
        let channel = channel(&link.connection).await;
        let channel = channel.map_err(|error| unavailable(&link, error))?;
        self.frame
            .learn(link.connection.configuration().frame_max());
        Ok(Open {
            link,
            channel,
            since: Instant::now(),
            refused: false,
        })
    }

    /// Publishes all, then awaits all confirms: a return comes before its confirm, but lapin hands
    /// it to whichever confirm completes next, so only the whole batch tells what was returned.
    async fn publish(&mut self, batch: &mut Vec<Request>) {
        if batch.is_empty() {
            return;
        }
        if let Err(error) = self.open().await {
            return refuse_all(batch, error, &self.brokers);
        }
        refuse_too_large(batch, &self.frame);
        leave_what_is_late(batch, Instant::now());
        if batch.is_empty() {
            return;
        }
        self.brokers.links().published(batch.len());
        let Open { link, channel, .. } = self.open.as_mut().expect("opened just now");
        let mut confirms: Vec<_> = batch.iter().map(|_| None).collect();
        let mut confirming: FuturesUnordered<_> = (batch.iter().enumerate())
            .map(|(at, request)| {
                let channel = &*channel;
                async move { (at, send(channel, &request.publication).await) }
            })
            .collect();
        let all = async {
            while let Some((at, confirm)) = confirming.next().await {
                confirms[at] = Some(confirm);
            }
        };
        let silent = tokio::select! {
            () = all => false,
            () = patience(|| link.connection.status().blocked()) => true,
            () = link.watch.keep() => unreachable!("watching never ends"),
        };
        drop(confirming);
        let refused = answer_all(batch, confirms);
        match &mut self.open {
            _ if silent => self.open = None,
            Some(open) => open.refused |= refused,
            None => {}
        }
    }
}

impl Open {
    /// Takes another channel if the broker has refused something on this one. What a quorum queue
    /// without a leader refuses, it refuses on this channel for ever (RabbitMQ 3.10,
    /// `rabbit_fifo_client`), whatever becomes of the queue.
    async fn renew(&mut self) -> Result<(), PublishError> {
        if !self.refused || self.since.elapsed() < BETWEEN_CHANNELS {
            return Ok(());
        }
        let fresh = channel(&self.link.connection).await;
        let fresh = fresh.map_err(|error| unavailable(&self.link, error))?;
        let old = std::mem::replace(&mut self.channel, fresh);
        (self.since, self.refused) = (Instant::now(), false);
        let _ = old.close(200, "replaced".into()).await;
        Ok(())
    }
}

/// A channel with confirms.
async fn channel(connection: &Connection) -> Result<Channel, Error> {
    let channel = connection.create_channel().await?;
    let confirms = ConfirmSelectOptions::default();
    channel.confirm_select(confirms).await?;
    Ok(channel)
}

fn unavailable(link: &Link, error: Error) -> PublishError {
    BrokerError::unavailable(&link.broker, said(error)).into()
}

/// Ends when the broker has had its time to confirm. A connection that it has blocked (memory or
/// disk alarm) is not read at all: its time begins anew afterwards, or every retry would add a copy.
async fn patience(is_blocked: impl Fn() -> bool) {
    let mut begun = Instant::now();
    let mut told = None;
    while begun.elapsed() < CONFIRM_TIMEOUT {
        sleep(LOOKS_EVERY).await;
        if !is_blocked() {
            continue;
        }
        begun = Instant::now();
        if told.is_none_or(|told: Instant| told.elapsed() >= CONFIRM_TIMEOUT) {
            told = Some(begun);
            tracing::warn!("the broker has blocked the publishing connection, waiting");
        }
    }
}

/// Answers each by its own confirm; one that has none yet may have arrived. Says whether the broker
/// refused any.
fn answer_all(
    batch: &mut Vec<Request>,
    confirms: Vec<Option<Result<Confirmation, Error>>>,
) -> bool {
    let mut refused = false;
    let mut returned = Vec::new();
    let mut answers = Vec::new();
    for confirm in confirms {
        answers.push(confirm.map(|confirm| {
            confirm.map(|confirmation| {
                let acked = confirmation.is_ack();
                returned.extend(confirmation.take_message());
                acked
            })
        }));
    }
    for (request, answer) in batch.drain(..).zip(answers) {
        let publication = &request.publication;
        let unroutable = (returned.iter()).any(|message| publication.is_like(&message.delivery));
        let answer = match answer {
            Some(acked) => judge(publication, acked, unroutable),
            None => Err(PublishError::Unconfirmed(
                "the broker did not confirm within 30 s".into(),
            )),
        };
        refused |= matches!(answer, Err(PublishError::Refused { .. }));
        let _ = request.answer.send(Some(answer));
    }
    refused
}

async fn send(channel: &Channel, publication: &Publication) -> Result<Confirmation, Error> {
    let options = BasicPublishOptions {
        mandatory: publication.mandatory,
        ..BasicPublishOptions::default()
    };
    let sent = channel.basic_publish(
        publication.exchange.clone(),
        publication.routing_key.clone(),
        options,
        &publication.body,
        publication.properties.clone(),
    );
    sent.await?.await
}

fn judge(
    publication: &Publication,
    acked: Result<bool, Error>,
    unroutable: bool,
) -> Result<(), PublishError> {
    let routing_key = || publication.routing_key.to_string();
    match acked {
        Err(error) => Err(PublishError::Unconfirmed(said(error))),
        Ok(_) if unroutable => Err(PublishError::Unroutable {
            exchange: publication.exchange.to_string(),
            routing_key: routing_key(),
        }),
        Ok(true) => Ok(()),
        Ok(false) => Err(PublishError::Refused {
            routing_key: routing_key(),
        }),
    }
}

/// One of these would end the connection.
fn refuse_too_large(batch: &mut Vec<Request>, frame: &LargestFrame) {
    let is_too_large = |request: &mut Request| frame.check(&request.publication, 0).is_err();
    for request in batch.extract_if(.., is_too_large) {
        let refused = frame.check(&request.publication, 0);
        let _ = request.answer.send(Some(refused));
    }
}

/// Somebody else may publish these by now.
fn leave_what_is_late(batch: &mut Vec<Request>, now: Instant) {
    let is_late = |request: &mut Request| request.until.is_some_and(|until| until <= now);
    for request in batch.extract_if(.., is_late) {
        let _ = request.answer.send(None);
    }
}

fn refuse_all(batch: &mut Vec<Request>, error: PublishError, brokers: &Brokers) {
    // Not its own text: that is what the others begin with, too.
    let reason = match error.source() {
        Some(cause) => ErrorChain::of(cause).to_string(),
        None => error.to_string(),
    };
    let mut first = Some(error);
    for request in batch.drain(..) {
        let error = first
            .take()
            .unwrap_or_else(|| BrokerError::unavailable(brokers, reason.clone()).into());
        let _ = request.answer.send(Some(Err(error)));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::error::tests::assert_tells_each_thing_once;

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_the_connection_was_blocked_does_not_count() {
        let begun = Instant::now();
        patience(|| false).await;
        assert_eq!(begun.elapsed(), CONFIRM_TIMEOUT);

        let begun = Instant::now();
        // Until a second before the time would be over.
        let blocked = Duration::from_secs(29);
        patience(|| begun.elapsed() <= blocked).await;
        assert_eq!(begun.elapsed(), blocked + CONFIRM_TIMEOUT);
    }

    #[tokio::test]
    async fn each_message_of_a_batch_is_told_once_why_the_broker_cannot_be_used() {
        let urls = "amqp://127.0.0.1:1".into();
        let brokers = Brokers::parse(&urls).unwrap();
        let (mut batch, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (answer, answered) = oneshot::channel();
            answers.push(answered);
            batch.push(Request {
                publication: Publication::json("orders", "hello"),
                batching: Batching::Shared,
                until: None,
                answer,
            });
        }
        let source = std::io::Error::other("nobody listens");
        let error = BrokerError::unavailable(&brokers, source);
        refuse_all(&mut batch, error.into(), &brokers);
        for answer in answers {
            let error = answer.await.unwrap().unwrap().unwrap_err();
            assert_tells_each_thing_once(&error);
            let text = ErrorChain::of(&error).to_string();
            assert!(
                text.ends_with("cannot be reached: nobody listens"),
                "{text}"
            );
        }
    }
}
