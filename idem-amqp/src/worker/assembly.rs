//! Makes a worker's consumers, and what they share: before the first connection, for all of them.

use std::sync::Arc;

use idem_core::Policy;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Subscription, Worker,
    channel_context::Slots,
    consumer::{Consumer, ToldLimit},
    delivery_processor::DeliveryProcessor,
    grace::Grace,
    handler_runner::RunHandler,
    lanes::DeliveryLanes,
    no_route::NoRoute,
    outgoing::LetterSender,
    replier::Replier,
    replying::ReplySender,
    session_requests::{RequestProcessor, SessionRequests},
    stats::Counters,
    stream::{FairShares, StreamReader},
    subscription,
};
use crate::{publisher::Publisher, telemetry::Meters, topology::Queue};

/// What the consumers of a worker share in one run of it.
pub(super) struct Assembly<'a> {
    worker: &'a Worker,
    counters: &'a Arc<Counters>,
    /// Cancelled when the grace period is over.
    deadline: &'a CancellationToken,
    grace: &'a Arc<Grace>,
    pub(super) draining: CancellationToken,
    publisher: Publisher,
    replier: Arc<Replier>,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(
        worker: &'a Worker,
        counters: &'a Arc<Counters>,
        deadline: &'a CancellationToken,
        grace: &'a Arc<Grace>,
    ) -> Self {
        Self {
            worker,
            counters,
            deadline,
            grace,
            draining: CancellationToken::new(),
            publisher: Publisher::lazy(worker.brokers.clone()),
            replier: Arc::new(Replier::new(Publisher::lazy(worker.brokers.clone()))),
        }
    }

    /// Makes the consumers, one for each queue.
    pub(super) fn consumers(&self) -> Vec<Arc<Consumer>> {
        let lanes = Arc::default();
        let mut shares = FairShares::default();
        let queues = subscription::by_queue(&self.worker.subscriptions);
        queues
            .map(|handlers| self.consumer(handlers, &lanes, &mut shares))
            .collect()
    }

    /// Makes what consumes the queues of registrations.
    pub(super) fn session_requests(&self) -> Vec<SessionRequests> {
        let subscriptions = self.worker.subscriptions.iter();
        subscriptions
            .filter_map(|subscription| self.requests_of(subscription))
            .collect()
    }

    /// Makes the consumer of a queue with this handler, or with these for its routes.
    fn consumer(
        &self,
        handlers: &[Subscription],
        lanes: &Arc<DeliveryLanes>,
        shares: &mut FairShares,
    ) -> Arc<Consumer> {
        let Subscription { queue, source, .. } = &handlers[0];
        let stream = source.as_ref().map(|source| {
            let health = Arc::clone(&self.worker.health);
            StreamReader::new(queue.clone(), source.clone(), health).sharing(shares.of(queue))
        });
        let routes = handlers
            .iter()
            .filter_map(|one| Some((one.route.clone()?, self.processor_of(one))));
        Arc::new(Consumer {
            slots: Slots::new(queue.handlers(), queue.waiting()),
            lanes: Arc::clone(lanes),
            processor: match &handlers[0].route {
                Some(route) => {
                    let nobody = NoRoute::beside(route, queue);
                    let meters = Arc::clone(&route.rest);
                    self.processor(queue, nobody.policy, Arc::new(nobody), meters)
                }
                None => self.processor_of(&handlers[0]),
            },
            routes: routes.collect(),
            health: Arc::clone(&self.worker.health),
            told_limit: ToldLimit::new(),
            tasks: TaskTracker::new(),
            draining: self.draining.clone(),
            grace: Arc::clone(self.grace),
            failures: Arc::default(),
            idle: self.worker.idle,
            stream,
        })
    }

    fn processor_of(&self, one: &Subscription) -> Arc<DeliveryProcessor> {
        let (runner, meters) = (Arc::clone(&one.runner), Arc::clone(&one.meters));
        self.processor(&one.queue, one.policy, runner, meters)
    }

    fn processor(
        &self,
        queue: &Queue,
        policy: Policy,
        runner: Arc<dyn RunHandler>,
        meters: Arc<Meters>,
    ) -> Arc<DeliveryProcessor> {
        Arc::new(DeliveryProcessor {
            letters: LetterSender::new(
                queue.clone(),
                self.publisher.clone(),
                self.deadline.clone(),
            ),
            replies: ReplySender::new(
                queue.clone(),
                Arc::clone(&self.replier),
                Arc::clone(self.counters),
                self.deadline.clone(),
            ),
            queue: queue.clone(),
            policy,
            runner,
            counters: Arc::clone(self.counters),
            meters,
            observer: self.worker.observer.clone(),
            deadline: self.deadline.clone(),
        })
    }

    fn requests_of(&self, subscription: &Subscription) -> Option<SessionRequests> {
        let Subscription { queue, served, .. } = subscription;
        let served = served.as_ref()?;
        Some(SessionRequests {
            name: queue.control_queue()?,
            queue: queue.clone(),
            processor: Arc::new(RequestProcessor {
                register: Arc::clone(&served.register),
                queue: queue.clone(),
                replier: Arc::clone(&self.replier),
                counters: Arc::clone(self.counters),
                health: Arc::clone(&self.worker.health),
                deadline: self.deadline.clone(),
            }),
            health: Arc::clone(&self.worker.health),
            tasks: TaskTracker::new(),
            draining: self.draining.clone(),
            idle: self.worker.idle,
        })
    }
}
