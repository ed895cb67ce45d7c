//! A queue and a handler become a subscription: its types are forgotten, what they say of it is kept.

use std::{
    marker::PhantomData,
    sync::{Arc, atomic::AtomicBool},
};

use idem_core::{
    Store,
    executor::RunsOn,
    handler::{Enforcement, Handler, Keyless, Mode as _, Operation, StoreOutage},
};

use super::WorkerBuilder;
use crate::{
    doctor::Batches,
    telemetry::Meters,
    topology::Queue,
    worker::{
        Subscription, WorkersOutbox, fitness,
        handler_runner::HandlerRunner,
        route::Route,
        subscription::{self, HandlerType, InVain, Served},
    },
};

impl<S: Store, St: Send + Sync + 'static> WorkerBuilder<S, St> {
    pub(super) fn subscribe<H>(
        mut self,
        queue: Queue,
        served: Option<Served>,
        route: Option<Route>,
    ) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
    {
        let policy = queue.policy_or(H::POLICY);
        let fails_open = policy.store_outage() == StoreOutage::FailOpen;
        self.executor.register_handler::<H>();
        let observes = policy.enforcement() == Enforcement::Observe;
        let unclaimed =
            policy.enforcement() == Enforcement::Plain || policy.keyless() == Keyless::Run;
        let in_vain = if fails_open && !H::Mode::RUNS_UNCLAIMED {
            Some(InVain::FailsOpen)
        } else if observes && !H::Mode::RUNS_UNCLAIMED {
            Some(InVain::Observes)
        } else if unclaimed && !H::Mode::RUNS_UNCLAIMED {
            Some(InVain::RunsUnclaimed)
        } else if H::PUBLISHES && !self.publishes::<H>() {
            Some(InVain::Publishes)
        } else {
            None
        };
        let meters = match route {
            Some(_) => self.meters_of_route::<H>(&queue),
            None => Arc::new(Meters::of(queue.name(), H::SCOPE)),
        };
        let is_stream = queue.is_stream();
        self.subscriptions.push(Subscription {
            meters,
            queue,
            route,
            limit: H::Mode::limit(&self.executor),
            sharing: H::Mode::sharing::<H>(&self.executor),
            batch: H::BATCH.map(|batch| Batches {
                handler: H::SCOPE,
                timeout: policy.timeout(),
                lease: policy.lease(),
                size: batch.most(),
                by_mark: is_stream && self.executor.records_by_mark::<H>(&policy).is_some(),
            }),
            fit: fitness::of::<H, S>(&self.executor),
            in_vain,
            numbered: subscription::sequence_of::<H>(self.executor.store(), &policy),
            recorded: H::RECORDED_BY.is_some(),
            source: None,
            served,
            policy,
            handler: HandlerType::of::<H>(),
            runner: Arc::new(HandlerRunner::<H, S, St> {
                executor: self.executor.clone(),
                state: Arc::clone(&self.state),
                policy,
                has_met_unordered: AtomicBool::new(false),
                handler: PhantomData,
            }),
        });
        self
    }

    /// Those of its first route on the queue, if it has several: two would write over each other's gauges.
    fn meters_of_route<H: Operation>(&self, queue: &Queue) -> Arc<Meters> {
        let mut routes = self.subscriptions.iter();
        let first = routes.find(|one| {
            one.route.is_some() && one.queue.name() == queue.name() && one.handler.is::<H>()
        });
        first.map_or_else(
            || Arc::new(Meters::of_route(queue.name(), H::SCOPE)),
            |first| Arc::clone(&first.meters),
        )
    }

    /// Has what the handler publishes published. Whether the store has an outbox for it.
    fn publishes<H>(&mut self) -> bool
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
    {
        if self.outbox.is_none()
            && let Some(outbox) = H::Mode::outbox(&self.executor)
        {
            let (ours, queue) = WorkersOutbox::new(outbox);
            self.executor
                .when_committed(move |messages| queue.push(messages));
            self.outbox = Some(ours);
        }
        self.outbox.is_some()
    }
}
