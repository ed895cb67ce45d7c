//! Several handlers of one queue, as a worker is given them.
//!
//! `WorkerBuilder::consume_routed` makes a subscription of each; `route.rs` says which messages it takes, and
//! `no_route.rs` what becomes of the others.

use std::{fmt, sync::Arc};

use idem_core::{Store, executor::RunsOn, handler::Handler};

use super::WorkerBuilder;
use crate::{
    telemetry::{Meters, ROUTES},
    topology::Queue,
    worker::route::{By, Route},
};

/// The handlers of one queue, each for the messages of one type, of one value of a header, or of a routing key.
///
/// | made by | a route takes messages |
/// |---|---|
/// | [`by_type`](Self::by_type) | whose property `type` is this text |
/// | [`by_header`](Self::by_header) | whose header of that name is this text; numbers and booleans count as their text |
/// | [`by_routing_key`](Self::by_routing_key) | whose routing key matches this pattern of a topic exchange: `order.*`, `order.#` |
///
/// The first route that takes a message has it. Everything behind is its handler's own, as if it had the queue for
/// itself: scope, key, policy, state. The queue's slots, its retry ladder and its dead-letter queue are shared.
///
/// A message that no route takes, because it has another type or none, is dead-lettered with the reason `no-route`. It
/// finds its handler when it is sent again to a worker that has the route.
///
/// ```
/// use idem_amqp::{MemoryStore, Queue, Worker, prelude::*, worker::Routes};
/// # #[derive(serde::Deserialize)] struct Charged { order: String }
/// # #[idempotent(key = "order", scope = "mails.receipt")]
/// # async fn receipt(_: Charged) -> Result<(), Failed> { Ok(()) }
/// # #[derive(serde::Deserialize)] struct Refunded { order: String }
/// # #[idempotent(key = "order", scope = "mails.sorry")]
/// # async fn sorry(_: Refunded) -> Result<(), Failed> { Ok(()) }
///
/// let routes = Routes::by_type()
///     .on::<receipt>("order.charged")
///     .on::<sorry>("order.refunded");
/// let worker = Worker::builder(MemoryStore::new()).consume_routed(Queue::quorum("mails"), routes);
/// # drop(worker);
/// ```
#[must_use]
pub struct Routes<S, St> {
    by: By,
    routes: Vec<NewRoute<S, St>>,
}

struct NewRoute<S, St> {
    takes: String,
    is_numbered: bool,
    subscribe: Subscribe<S, St>,
}

/// Subscribes a handler whose type is forgotten.
type Subscribe<S, St> = fn(WorkerBuilder<S, St>, Queue, Route) -> WorkerBuilder<S, St>;

impl<S, St> Routes<S, St> {
    /// Each route takes the messages of one type: the AMQP property `type`.
    pub fn by_type() -> Self {
        Self::by(By::Type)
    }

    /// Each route takes the messages with one value of this header: `task` for Celery's, say.
    pub fn by_header(name: impl Into<String>) -> Self {
        Self::by(By::Header(name.into().into()))
    }

    /// Each route takes the messages whose routing key matches its pattern, as a topic exchange matches it: `*` is one
    /// word, `#` any number of words. It is the routing key that they were published with, also when they come again.
    pub fn by_routing_key() -> Self {
        Self::by(By::RoutingKey)
    }

    fn by(by: By) -> Self {
        Self {
            by,
            routes: Vec::new(),
        }
    }
}

impl<S: Store, St: Send + Sync + 'static> Routes<S, St> {
    /// Adds a route, behind the others: what it takes, and its handler. A handler may have several.
    pub fn on<H>(mut self, takes: impl Into<String>) -> Self
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
    {
        self.routes.push(NewRoute {
            takes: takes.into(),
            is_numbered: H::SEQUENCE.is_some(),
            subscribe: |worker, queue, route| worker.subscribe::<H>(queue, None, Some(route)),
        });
        self
    }

    /// The worker with a subscription for each route.
    pub(super) fn subscribe(
        self,
        worker: WorkerBuilder<S, St>,
        queue: &Queue,
    ) -> WorkerBuilder<S, St> {
        let rest = Arc::new(Meters::of(queue.name(), ROUTES));
        let routes = self.routes.into_iter().enumerate();
        routes.fold(worker, |worker, (at, route)| {
            let subscribe = route.subscribe;
            let route = Route::new(self.by.clone(), route.takes, at, &rest);
            subscribe(worker, queue.clone(), route)
        })
    }

    /// Why they cannot be the routes of a queue, and what to do.
    pub(super) fn objection(&self) -> Option<String> {
        if self.routes.is_empty() {
            return Some("there is none: add one with `.on::<handler>(…)`".into());
        }
        if matches!(&self.by, By::Header(name) if name.is_empty()) {
            return Some("the header by which they differ has no name".into());
        }
        let takes: Vec<_> = self.routes.iter().map(|route| &*route.takes).collect();
        if takes.contains(&"") {
            return Some(
                "one of them takes nothing: give `.on::<handler>(…)` what it takes".into(),
            );
        }
        let mut later = self.routes.iter().enumerate();
        later.find_map(|(at, route)| {
            let what = &route.takes;
            if takes[..at].contains(&&**what) {
                Some(format!("two of them take `{what}`, and the second would get no message: leave one out"))
            } else if route.is_numbered {
                Some(format!("the key of the handler of `{what}` is a place in a sequence, and it would wait for the numbers that other handlers get: consume a queue of its own with `consume`"))
            } else {
                None
            }
        })
    }
}

impl<S, St> fmt::Debug for Routes<S, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let takes = self.routes.iter().map(|route| &route.takes);
        f.debug_struct("Routes")
            .field("by", &self.by)
            .field("takes", &takes.collect::<Vec<_>>())
            .finish()
    }
}
