//! Collects the facts: what the broker tells about itself and about existing queues.

use std::time::Duration;

use idem_core::{Policy, Sharing};
use lapin::Connection;

use super::{Diagnosis, Facts, Gaps, Patient, Product, Told, examine, facts, greeting, look};
use crate::{Queue, connection::Broker, queue::Retries};

/// What the doctor is told before it asks the broker.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// Whether the store forgets its keys when the process ends.
    pub(crate) forgets: bool,
    /// For how long after a message it may be published again.
    pub(crate) replay_window: Duration,
    pub(crate) queues: Vec<Case>,
}

/// One queue with its handler.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) queue: Queue,
    pub(crate) policy: Policy,
    pub(crate) at_once: Option<usize>,
    /// How its handler's messages share transactions, if they do.
    pub(crate) sharing: Option<Sharing>,
    /// How long the sessions of its clients live without a sign of life, if it serves any.
    pub(crate) life: Option<Duration>,
    /// If its handler's key is a place in a sequence.
    pub(crate) numbered: Option<Gaps>,
    /// Whether a table of its handler's own says what was handled.
    pub(crate) recorded: bool,
}

/// Of which existing queues it is looked up how they were declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    All,
    /// All but those of which somebody accepts that it is not known.
    ButAccepted,
}

/// What was found, and what was told about each queue, in the order of the history.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) diagnoses: Vec<Diagnosis>,
    pub(crate) told: Vec<Told>,
}

impl History {
    /// Asks the broker all that it tells, and examines that.
    pub(crate) async fn visit(&self, connection: &Connection, broker: &Broker) -> Visit {
        let product = product(broker).await;
        self.examine(connection, product, Asked::All).await
    }

    /// The same, but asks only what may keep the worker from starting: the broker's log notes it.
    pub(crate) async fn visit_at_start(&self, connection: &Connection, broker: &Broker) -> Visit {
        let matters = |case: &Case| {
            let native = matches!(case.queue.retries(), Retries::Native(_));
            native || case.queue.declared().is_none()
        };
        let product = if self.queues.iter().any(matters) {
            product(broker).await
        } else {
            Product::NotAsked
        };
        self.examine(connection, product, Asked::ButAccepted).await
    }

    async fn examine(&self, connection: &Connection, product: Product, asked: Asked) -> Visit {
        let mut all = Vec::with_capacity(self.queues.len());
        let mut registrations = Vec::with_capacity(self.queues.len());
        for Case { queue, .. } in &self.queues {
            all.push(told(connection, queue, queue.name(), product, asked).await);
            registrations.push(match queue.control_queue() {
                Some(name) => Some(told(connection, queue, &name, product, asked).await),
                None => None,
            });
        }
        Visit {
            diagnoses: self.diagnoses(product, &all, &registrations),
            told: all,
        }
    }

    /// What can be said without the broker.
    pub(crate) fn unvisited(&self) -> Vec<Diagnosis> {
        let told = self.queues.iter().map(|case| match case.queue.declared() {
            Some(_) => Told::Ours,
            None => Told::Hidden("the broker cannot be reached".into()),
        });
        // That the one cannot be looked at says the same of the other.
        let registrations = vec![None; self.queues.len()];
        self.diagnoses(Product::NotAsked, &told.collect::<Vec<_>>(), &registrations)
    }

    fn diagnoses(
        &self,
        product: Product,
        told: &[Told],
        registrations: &[Option<Told>],
    ) -> Vec<Diagnosis> {
        let told = told.iter().zip(registrations);
        let queues = self.queues.iter().zip(told);
        let queues = queues.map(|(case, (told, registrations))| Patient {
            queue: &case.queue,
            policy: case.policy,
            life: case.life,
            at_once: case.at_once,
            sharing: case.sharing,
            numbered: case.numbered,
            recorded: case.recorded,
            told: told.clone(),
            registrations: registrations.clone(),
        });
        examine(&Facts {
            broker: product,
            forgets: self.forgets,
            replay_window: self.replay_window,
            queues: queues.collect(),
        })
    }
}

async fn product(broker: &Broker) -> Product {
    match greeting::version(broker.uri()).await {
        Ok(Some(version)) => Product::RabbitMq(version),
        Ok(None) => Product::Unknown,
        Err(error) => {
            tracing::debug!(%broker, %error, "the broker's greeting cannot be read");
            Product::Unknown
        }
    }
}

/// What is told of this queue, or of its queue of registrations. A broker that is not known to refuse
/// what it should may create what it is asked about.
async fn told(
    connection: &Connection,
    queue: &Queue,
    name: &str,
    product: Product,
    asked: Asked,
) -> Told {
    if queue.declared().is_some() {
        return Told::Ours;
    }
    if asked == Asked::ButAccepted && queue.accepts(facts::HIDDEN) {
        return Told::Hidden("that is accepted".into());
    }
    if let Product::RabbitMq(_) = product {
        tracing::info!(
            queue = name,
            "looking up how the queue was declared: the refusals that follow are the answers"
        );
        return look::look(connection, name).await;
    }
    Told::Hidden("the broker does not say that it is RabbitMQ".into())
}
