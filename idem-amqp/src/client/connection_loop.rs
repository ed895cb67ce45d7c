//! The client's connection: requests go out, replies come in, and a lost one is replaced.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use idem_core::{ErrorChain, handler::Backoff};
use lapin::{
    Channel, Confirmation, Connection, Error,
    message::Delivery,
    options::{
        BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    },
    types::{FieldTable, ShortString},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    ClientError, ReplyTo,
    message::Message,
    pending_calls::{Event, PendingCalls},
    reply::RawReply,
};
use crate::{
    connection::{Brokers, Link},
    error::said,
    wire::unmark,
};

/// A request to be sent.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) message: Arc<Message>,
    pub(super) correlation_id: String,
    /// Answered just before it is sent, with what is cancelled when the connection has ended. If
    /// nobody waits for the answer any more, it is not sent.
    pub(super) let_go: oneshot::Sender<CancellationToken>,
}

/// The requests to be sent.
pub(super) struct Orders {
    queue: mpsc::Receiver<Order>,
    /// One that waits until the broker takes messages again.
    held: Option<Order>,
}

/// Requests and replies of a client, over one connection after the other.
pub(super) struct ConnectionLoop {
    pub(super) brokers: Brokers,
    pub(super) reply_to: ReplyTo,
    pub(super) pending_calls: Arc<PendingCalls>,
}

/// An open connection, and the queue for replies on it.
pub(super) struct Open {
    link: Link,
    channel: Channel,
    reply_to: ShortString,
    replies: lapin::Consumer,
}

/// Why no more is sent on a connection.
#[derive(Debug, PartialEq, Eq)]
enum StopReason {
    /// All clients are gone, and their calls.
    Unused,
    Lost,
}

/// A request on its way: its correlation id, and what the broker says to it.
type Sending = BoxFuture<'static, (String, Result<Confirmation, Error>)>;

const RECONNECT: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection is used at least, though the broker refuses what is published on it.
const BETWEEN_REFUSED: Duration = Duration::from_secs(10);

/// How often a connection that takes no messages is looked at.
const BLOCKED_LOOK: Duration = Duration::from_millis(100);

/// The pseudo-queue of direct reply-to.
const DIRECT: &str = "amq.rabbitmq.reply-to";

impl Orders {
    fn new(queue: mpsc::Receiver<Order>) -> Self {
        Self { queue, held: None }
    }

    /// The next request, as soon as the connection takes it. Nothing, when all clients are gone, and
    /// their calls.
    ///
    /// A connection that the broker has blocked is not read: every retry would add a copy.
    ///
    /// # Cancel safety
    /// What was taken out of the queue is held for the next call.
    async fn next(&mut self, connection: &Connection) -> Option<Order> {
        if self.held.is_none() {
            self.held = Some(self.queue.recv().await?);
        }
        while connection.status().blocked() {
            sleep(BLOCKED_LOOK).await;
        }
        self.held.take()
    }
}

impl ConnectionLoop {
    /// Opens a connection, with a queue for replies.
    pub(super) async fn open(&mut self) -> Result<Open, ClientError> {
        let link = self.brokers.connect("idem client").await?;
        let opened = open_channel(&link.connection, self.reply_to).await;
        let (channel, reply_to, replies) = opened.map_err(|error| ClientError::ReplyQueue {
            broker: link.broker.to_string(),
            source: said(error),
        })?;
        tracing::info!(broker = %link.broker, %reply_to, "connected");
        Ok(Open {
            link,
            channel,
            reply_to,
            replies,
        })
    }

    /// Sends and receives until all clients are gone, then closes the connection.
    pub(super) async fn serve(mut self, open: Open, orders: mpsc::Receiver<Order>) {
        let mut orders = Orders::new(orders);
        let mut next = Some(open);
        let mut tries = 0;
        while let Some(mut open) = next.take() {
            let opened = Instant::now();
            let ended = self.run(&mut open, &mut orders).await;
            open.close().await;
            if ended == StopReason::Unused {
                break;
            }
            if opened.elapsed() > RECONNECT.longest() {
                tries = 0;
            }
            next = self.reopen(&mut tries, &orders).await;
        }
    }

    /// Connects again, for as long as there are clients.
    async fn reopen(&mut self, tries: &mut u32, orders: &Orders) -> Option<Open> {
        while !orders.queue.is_closed() {
            *tries += 1;
            sleep(RECONNECT.wait(*tries)).await;
            match self.open().await {
                Ok(open) => {
                    self.pending_calls.set_outage(None);
                    return Some(open);
                }
                Err(error) => {
                    let outage = ErrorChain::of(&error).to_string();
                    tracing::warn!(error = outage, "the client cannot connect, trying again");
                    self.pending_calls.set_outage(Some(outage));
                }
            }
        }
        None
    }

    /// Sends and receives until the connection or its channel has ended.
    async fn run(&self, open: &mut Open, orders: &mut Orders) -> StopReason {
        let ended = CancellationToken::new();
        let _ends_with_this_call = ended.clone().drop_guard();
        let mut sending: FuturesUnordered<Sending> = FuturesUnordered::new();
        let since = Instant::now();
        loop {
            tokio::select! {
                reply = open.replies.next() => match reply {
                    Some(Ok(reply)) => self.receive(reply),
                    Some(Err(_)) | None => return StopReason::Lost,
                },
                Some((correlation_id, told)) = sending.next() => {
                    let refused = matches!(&told, Ok(told) if told.is_nack());
                    self.judge(&correlation_id, told);
                    // What a quorum queue without a leader refuses, it refuses on this channel for
                    // ever (RabbitMQ 3.10, `rabbit_fifo_client`), whatever becomes of the queue.
                    if refused && since.elapsed() > BETWEEN_REFUSED {
                        return StopReason::Lost;
                    }
                }
                order = orders.next(&open.link.connection) => match order {
                    Some(order) => sending.extend(self.send(open, order, &ended)),
                    None => return StopReason::Unused,
                },
                () = open.link.watch.keep() => unreachable!("watching never ends"),
            }
        }
    }

    /// Sends a request, if it is still wanted.
    fn send(&self, open: &Open, order: Order, ended: &CancellationToken) -> Option<Sending> {
        order.let_go.send(ended.clone()).ok()?;
        self.pending_calls.counters.tried();
        Some(send(open, order.message, order.correlation_id))
    }

    fn receive(&self, mut reply: Delivery) {
        if let Some(flaw) = unmark(&mut reply.properties) {
            // Whether it is a refusal cannot be told: it is nobody's.
            tracing::warn!(flaw, "a reply whose properties cannot be read");
            return self.pending_calls.counters.foreign();
        }
        let correlation_id = reply.properties.correlation_id().as_ref();
        let raw = RawReply::new(reply.data, Some(&reply.properties));
        let correlation_id = correlation_id.map(ShortString::as_str);
        self.pending_calls.reply(correlation_id, raw);
    }

    /// Tells the call what the broker says to its request. lapin hands a returned message to whichever
    /// confirm completes next, so it is the message that tells whose it is.
    fn judge(&self, correlation_id: &str, told: Result<Confirmation, Error>) {
        let refused = match &told {
            Ok(confirmation) if confirmation.is_nack() => Some("its queue is full".to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(reason) = refused {
            self.pending_calls
                .tell(correlation_id, Event::Refused(reason));
        }
        let returned = told.ok().and_then(Confirmation::take_message);
        let returned = returned
            .as_ref()
            .map(|message| &message.delivery.properties);
        if let Some(id) = returned.and_then(|properties| properties.correlation_id().as_ref()) {
            self.pending_calls.tell(id.as_str(), Event::Returned);
        }
    }
}

impl Open {
    async fn close(mut self) {
        // A dead connection cannot be closed, and must not be waited for.
        let closed = self.link.connection.close(200, "done".into());
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
        // That the replies have ended may be known before why.
        self.link.watch.catch_up();
    }
}

async fn open_channel(
    connection: &Connection,
    reply_to: ReplyTo,
) -> Result<(Channel, ShortString, lapin::Consumer), Error> {
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let name = match reply_to {
        ReplyTo::Queue => declare(&channel).await?,
        ReplyTo::Direct => DIRECT.into(),
    };
    let options = BasicConsumeOptions {
        no_ack: true,
        ..BasicConsumeOptions::default()
    };
    let replies = channel
        .basic_consume(name.clone(), "".into(), options, FieldTable::default())
        .await?;
    Ok((channel, name, replies))
}

/// A queue that is this connection's alone, and goes with it.
async fn declare(channel: &Channel) -> Result<ShortString, Error> {
    let options = QueueDeclareOptions {
        exclusive: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    let declared = channel.queue_declare("".into(), options, FieldTable::default());
    Ok(declared.await?.name().clone())
}

fn send(open: &Open, message: Arc<Message>, correlation_id: String) -> Sending {
    let channel = open.channel.clone();
    let properties = message.properties(&correlation_id, &open.reply_to);
    Box::pin(async move {
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let queue = message.queue.clone();
        let sent = channel.basic_publish("".into(), queue, options, &message.body, properties);
        let told = async { sent.await?.await };
        let told = told.await;
        (correlation_id, told)
    })
}
