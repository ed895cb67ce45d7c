//! The publisher's own connection: batches, confirms and returns.

use std::{future::pending, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lapin::{
    Channel, Confirmation, Connection, Error,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use tokio::{sync::mpsc, time::sleep};

use super::{Publication, Request};
use crate::{
    connection::{Brokers, Link},
    error::PublishError,
};

/// Messages that are published before their confirms are awaited.
const BATCH: usize = 256;

/// A broker that does not confirm for so long is taken for lost.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// The connection, opened when needed.
pub(super) struct Line {
    brokers: Brokers,
    open: Option<Open>,
}

struct Open {
    link: Link,
    channel: Channel,
}

impl Line {
    pub(super) fn new(brokers: Brokers) -> Self {
        Self {
            brokers,
            open: None,
        }
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
            self.publish(&mut batch).await;
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
        if self.open.is_none() {
            self.open = Some(self.connect().await?);
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<Open, PublishError> {
        let link = self.brokers.connect("idem publish").await?;
        let opened = async {
            let channel = link.connection.create_channel().await?;
            let confirms = ConfirmSelectOptions::default();
            channel.confirm_select(confirms).await?;
            Ok(channel)
        };
        let opened: Result<_, Error> = opened.await;
        let channel = opened.map_err(|error| PublishError::Unavailable {
            broker: link.broker.to_string(),
            source: error.into(),
        })?;
        Ok(Open { link, channel })
    }

    /// Publishes all, then awaits all confirms: a return comes before its confirm, but lapin hands
    /// it to whichever confirm completes next, so only the whole batch tells what was returned.
    async fn publish(&mut self, batch: &mut Vec<Request>) {
        if let Err(error) = self.open().await {
            return refuse_all(batch, error, &self.brokers);
        }
        let Open { link, channel } = self.open.as_mut().expect("opened just now");
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
            () = patience(&link.connection) => true,
            () = link.watch.keep() => unreachable!("watching never ends"),
        };
        drop(confirming);
        answer_all(batch, confirms);
        if silent {
            self.open = None;
        }
    }
}

/// Ends when the broker has had its time to confirm. A connection that it has blocked (memory or
/// disk alarm) is not read at all: that time does not count, or every retry would add a copy.
async fn patience(connection: &Connection) {
    loop {
        sleep(CONFIRM_TIMEOUT).await;
        if !connection.status().blocked() {
            return;
        }
        tracing::warn!("the broker has blocked the publishing connection, waiting");
    }
}

/// Answers each by its own confirm; one that has none yet may have arrived.
fn answer_all(batch: &mut Vec<Request>, confirms: Vec<Option<Result<Confirmation, Error>>>) {
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
        let _ = request.answer.send(answer);
    }
}

async fn send(channel: &Channel, publication: &Publication) -> Result<Confirmation, Error> {
    let options = BasicPublishOptions {
        mandatory: true,
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
        Err(error) => Err(PublishError::Unconfirmed(error.into())),
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

fn refuse_all(batch: &mut Vec<Request>, error: PublishError, brokers: &Brokers) {
    let text = error.to_string();
    let mut first = Some(error);
    for request in batch.drain(..) {
        let error = first.take().unwrap_or_else(|| PublishError::Unavailable {
            broker: brokers.to_string(),
            source: text.clone().into(),
        });
        let _ = request.answer.send(Err(error));
    }
}
