//! Collects the facts: what the broker tells about itself and about existing queues.

use std::time::Duration;

use lapin::Connection;

use super::{
    Answers, CheckedQueue, Declaration, Diagnosis, Facts, Product, QueueFacts, examine, facts,
    greeting, look,
};
use crate::{
    connection::Broker,
    topology::{self, Queue},
    wire::retries::Retries,
};

/// The doctor, and what it is told before it asks the broker.
#[derive(Debug, Clone)]
pub(crate) struct Doctor {
    /// Whether the store forgets its keys when the process ends.
    pub(crate) forgets: bool,
    /// Whether records stay for ever unless somebody else than this worker removes them.
    pub(crate) left_to_others: bool,
    /// For how long after it was first published a message may be published again.
    pub(crate) replay_window: Duration,
    /// The routes of a queue stand one after the other.
    pub(crate) queues: Vec<CheckedQueue>,
}

/// Which existing queues are asked for how they were declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    All,
    /// All but those for which somebody accepts that it is not known.
    ButAccepted,
}

/// What was found, and how each queue is declared, in the order of [`Doctor::queues`]: once for all routes of a queue.
#[derive(Debug)]
pub(crate) struct Examination {
    pub(crate) diagnoses: Vec<Diagnosis>,
    pub(crate) declarations: Vec<Declaration>,
}

impl Doctor {
    /// Asks the broker all that it tells, and examines that.
    pub(crate) async fn examine(&self, connection: &Connection, broker: &Broker) -> Examination {
        let product = product(broker).await;
        self.examine_by(connection, product, Asked::All).await
    }

    /// The same, but asks only what may keep the worker from starting: the broker's log notes it.
    pub(crate) async fn examine_at_start(
        &self,
        connection: &Connection,
        broker: &Broker,
    ) -> Examination {
        let matters = |checked: &CheckedQueue| {
            let native = matches!(checked.queue.retries(), Retries::Native(_));
            native || !checked.queue.is_ours()
        };
        let product = if self.queues.iter().any(matters) {
            product(broker).await
        } else {
            Product::NotAsked
        };
        self.examine_by(connection, product, Asked::ButAccepted)
            .await
    }

    async fn examine_by(
        &self,
        connection: &Connection,
        product: Product,
        asked: Asked,
    ) -> Examination {
        let mut all = Vec::with_capacity(self.queues.len());
        let mut declarations = Vec::new();
        for routes in self.queues.chunk_by(are_routes_of_one) {
            let answers = answers(connection, &routes[0].queue, product, asked).await;
            declarations.push(answers.declaration.clone());
            all.extend(routes.iter().map(|_| answers.clone()));
        }
        Examination {
            diagnoses: self.diagnoses(product, all),
            declarations,
        }
    }

    /// What can be said without the broker.
    pub(crate) fn examine_without_broker(&self) -> Vec<Diagnosis> {
        let answers = self.queues.iter().map(|checked| Answers {
            declaration: if checked.queue.is_ours() {
                Declaration::Ours
            } else {
                Declaration::Hidden("the broker cannot be reached".into())
            },
            // That the one cannot be looked at says the same of the others.
            dead_letters: Declaration::Ours,
            registrations: None,
            refusals: Vec::new(),
        });
        self.diagnoses(Product::NotAsked, answers.collect())
    }

    fn diagnoses(&self, product: Product, answers: Vec<Answers>) -> Vec<Diagnosis> {
        let queues = self.queues.iter().cloned().zip(answers);
        let queues = queues.map(|(checked, answers)| QueueFacts { checked, answers });
        examine(&Facts {
            broker: product,
            forgets: self.forgets,
            left_to_others: self.left_to_others,
            replay_window: self.replay_window,
            queues: queues.collect(),
        })
    }
}

fn are_routes_of_one(one: &CheckedQueue, next: &CheckedQueue) -> bool {
    one.queue.name() == next.queue.name()
}

async fn answers(
    connection: &Connection,
    queue: &Queue,
    product: Product,
    asked: Asked,
) -> Answers {
    Answers {
        declaration: declaration(connection, queue, queue.name(), product, asked).await,
        dead_letters: declaration_of_dead_letters(connection, queue, product, asked).await,
        registrations: match queue.control_queue() {
            Some(name) => Some(declaration(connection, queue, &name, product, asked).await),
            None => None,
        },
        refusals: match asked {
            Asked::All => topology::refusals(connection, queue).await,
            // The worker hears them itself.
            Asked::ButAccepted => Vec::new(),
        },
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
async fn declaration(
    connection: &Connection,
    queue: &Queue,
    name: &str,
    product: Product,
    asked: Asked,
) -> Declaration {
    if queue.is_ours() {
        return Declaration::Ours;
    }
    look_up(connection, queue, name, product, asked).await
}

/// What is told of its dead-letter queue. The worker declares that of a declared queue, too, and is refused
/// at its start if it is there and differs; who only asks the doctor has to be told the same.
async fn declaration_of_dead_letters(
    connection: &Connection,
    queue: &Queue,
    product: Product,
    asked: Asked,
) -> Declaration {
    // Its handler's queue has the same, and is looked at, too.
    if queue.is_stream() {
        return Declaration::Ours;
    }
    let declared = queue.declared().is_some();
    if declared && asked == Asked::ButAccepted {
        return Declaration::Ours;
    }
    let Some(name) = queue.dead_letter_queue() else {
        // Where it leads nobody tells.
        if topology::lacks_dead_letter_exchange(connection, queue).await {
            return Declaration::Missing;
        }
        return Declaration::Ours;
    };
    match look_up(connection, queue, name, product, asked).await {
        Declaration::Missing | Declaration::Hidden(_) if declared => Declaration::Ours,
        declaration => declaration,
    }
}

async fn look_up(
    connection: &Connection,
    queue: &Queue,
    name: &str,
    product: Product,
    asked: Asked,
) -> Declaration {
    if asked == Asked::ButAccepted && queue.accepts(facts::HIDDEN) {
        return Declaration::Hidden("that is accepted".into());
    }
    if let Product::RabbitMq(_) = product {
        tracing::info!(
            queue = name,
            "looking up how the queue was declared: the refusals that follow are the answers"
        );
        return look::look(connection, name).await;
    }
    Declaration::Hidden("the broker does not say that it is RabbitMQ".into())
}
