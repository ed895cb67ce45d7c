//! Consumes the queue of registrations and heartbeats: apart from requests, whatever their backlog.

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use idem_core::{ErrorChain, StoreError, handler::Refusal, settlement::Reason};
use lapin::{Channel, Connection, Error, message::Delivery as RawDelivery, types::ShortString};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    channels::{Channels, Consuming, Settling, Stopped},
    registrar::{self, ControlReply, Register},
    replier::{Replier, Untaken},
    stats::Counters,
};
use crate::{
    connection::health::HealthState,
    error::TopologyError,
    publisher::Batching,
    topology::{self, Queue, Step},
    wire::{delivery::Delivery, reply::Address, sessions::Control},
};

/// The consumer of one queue of registrations and heartbeats.
pub(super) struct SessionRequests {
    /// The queue of the requests.
    pub(super) queue: Queue,
    /// The queue of registrations' name.
    pub(super) name: String,
    pub(super) processor: Arc<RequestProcessor>,
    pub(super) health: Arc<HealthState>,
    pub(super) tasks: TaskTracker,
    pub(super) draining: CancellationToken,
    /// For how long nothing may come before the channel is renewed.
    pub(super) idle: Duration,
}

/// What all its deliveries need.
pub(super) struct RequestProcessor {
    pub(super) register: Arc<dyn Register>,
    /// The queue of the requests, which says who may be replied to.
    pub(super) queue: Queue,
    pub(super) replier: Arc<Replier>,
    pub(super) counters: Arc<Counters>,
    pub(super) health: Arc<HealthState>,
    /// Cancelled when the worker's grace period is over.
    pub(super) deadline: CancellationToken,
}

/// Each is a call to the store and a small message.
const PREFETCH: u16 = 64;

/// How long a reply is worth a try: its client asks again.
const AT_MOST: Duration = Duration::from_secs(5);

/// How long what was started may take while the worker drains.
const FINISH: Duration = Duration::from_secs(2);

impl SessionRequests {
    /// Consumes on this connection until the worker drains or the connection ends.
    pub(super) async fn consume(&self, connection: &Connection, first: bool) -> Stopped {
        let channels = Channels {
            consumer: self,
            health: &self.health,
            draining: &self.draining,
            idle: self.idle,
        };
        channels.consume(connection, first).await
    }
}

impl Consuming for SessionRequests {
    type Context = Settling;

    fn queue(&self) -> &str {
        &self.name
    }

    fn prefetch(&self) -> u16 {
        PREFETCH
    }

    async fn establish(&self, _: &Connection, channel: &Channel) -> Result<(), TopologyError> {
        topology::establish_control(channel, &self.queue).await
    }

    fn refused(&self, error: Error) -> TopologyError {
        topology::explain(Step::Consume(&self.name), &self.queue, error)
    }

    fn context(&self, settling: Settling) -> Settling {
        settling
    }

    fn take_delivery(&self, raw: RawDelivery, settling: &Arc<Settling>) {
        let (processor, settling) = (Arc::clone(&self.processor), Arc::clone(settling));
        let tag = raw.delivery_tag;
        let (delivery, body) = Delivery::received(self.name.as_str().into(), raw);
        self.tasks.spawn(async move {
            let served = AssertUnwindSafe(processor.serve(&delivery, &body));
            tokio::select! {
                // If it panicked, that was told, and its client asks again.
                _ = served.catch_unwind() => {}
                () = processor.deadline.cancelled() => return,
            }
            // Where the channel has ended it comes again, and is harmless.
            settling.acks.ack(tag);
        });
    }

    /// It comes again.
    fn abandon(&self, _: RawDelivery) {}

    async fn beside(&self, _: &Connection) {
        pending::<()>().await;
    }

    fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    async fn finish_running(&self) {
        self.tasks.close();
        // Past that it comes again, and is harmless.
        let _ = timeout(FINISH, self.tasks.wait()).await;
    }
}

impl RequestProcessor {
    /// Sees to one message, and to its being answered if that is possible.
    async fn serve(&self, delivery: &Delivery, body: &[u8]) {
        let counters = &self.counters.sessions;
        match self.run(delivery, body).await {
            Some(answer) => {
                if !self.reply(answer, delivery).await {
                    counters.undelivered.add();
                }
            }
            None => counters.unanswered.add(),
        }
    }

    /// `None` if the store does not answer.
    async fn run(&self, delivery: &Delivery, body: &[u8]) -> Option<ControlReply> {
        let kind = delivery.origin().properties.kind().as_ref();
        let kind = kind.map_or("", ShortString::as_str);
        let control = match Control::read(kind, body) {
            Ok(control) => control,
            Err(error) => {
                self.counters.sessions.undecodable.add();
                let refusal = Refusal::new(Reason::Undecodable.as_str(), error);
                return Some(Err(refusal));
            }
        };
        let hears = self.requester(delivery).is_some();
        if !hears && matches!(control, Control::Open | Control::Reserve) {
            let refusal = Refusal::new(
                Reason::Undecodable.as_str(),
                "it has no `reply_to` that is answered",
            );
            return Some(Err(refusal));
        }
        let counters = &self.counters.sessions;
        let ran = self.register.run(&control, counters).await;
        match ran {
            Ok(answer) => {
                if is_from_the_store(&control, &answer) {
                    self.health.answered_client();
                }
                Some(answer)
            }
            Err(error) => {
                let answered = matches!(error, StoreError::Corrupt { .. });
                let error = ErrorChain::of(&error).to_string();
                if !answered {
                    self.health.failed_client(error.clone());
                }
                tracing::warn!(
                    queue = delivery.queue(),
                    kind,
                    error,
                    "the store cannot be asked about sessions, clients have to ask again"
                );
                None
            }
        }
    }

    /// Where its client waits, if it may be told there.
    fn requester<'a>(&self, delivery: &'a Delivery) -> Option<&'a str> {
        let to = delivery.reply_to()?;
        let Some(objection) = self.queue.objection_to(to) else {
            return Some(to);
        };
        let queue = delivery.queue();
        tracing::warn!(queue, reply_to = to, "a client is not told: {objection}");
        None
    }

    /// Whether the broker took the reply.
    async fn reply(&self, answer: ControlReply, delivery: &Delivery) -> bool {
        let Some(to) = self.requester(delivery) else {
            return false;
        };
        let publication = registrar::reply(answer).publication(to, delivery);
        let address = Address::read(to);
        let publishing = self
            .replier
            .publish(&publication, &address, Batching::Shared);
        let error = match timeout(AT_MOST, publishing).await {
            Ok(Ok(())) => return true,
            Ok(Err(Untaken::Yet(error) | Untaken::Harmful(error))) => {
                ErrorChain::of(&error).to_string()
            }
            Ok(Err(Untaken::Suspect)) => "such addresses have closed the connection".into(),
            Err(_) => "the broker did not confirm it".into(),
        };
        tracing::debug!(
            queue = delivery.queue(),
            reply_to = to,
            error,
            "a client could not be told"
        );
        false
    }
}

/// Whether the store was asked for it.
fn is_from_the_store(control: &Control, answer: &ControlReply) -> bool {
    let unnamed = |refusal: &Refusal| refusal.code() == Reason::Undecodable.as_str();
    !matches!(control, Control::Reserve) && !answer.as_ref().is_err_and(unnamed)
}
