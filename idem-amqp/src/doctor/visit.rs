//! Collects the facts: what the broker tells about itself and about existing queues.

use std::time::Duration;

use idem_core::{Policy, executor::Sharing};
use lapin::Connection;

use super::{
    Batches, Declaration, Diagnosis, Facts, Gaps, Patient, Product, examine, facts, greeting, look,
};
use crate::{
    connection::Broker,
    topology::{self, Queue},
    wire::retries::Retries,
};

/// What the doctor is told before it asks the broker.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// Whether the store forgets its keys when the process ends.
    pub(crate) forgets: bool,
    /// Whether records stay for ever unless somebody else than this worker removes them.
    pub(crate) left_to_others: bool,
    /// For how long after it was first published a message may be published again.
    pub(crate) replay_window: Duration,
    pub(crate) queues: Vec<Case>,
}

/// One queue with its handler, or with one of its routes' handlers: these stand one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) queue: Queue,
    /// The handler's scope.
    pub(crate) handler: &'static str,
    pub(crate) policy: Policy,
    pub(crate) at_once: Option<usize>,
    /// How its handler's messages share transactions, if they do.
    pub(crate) sharing: Option<Sharing>,
    /// The batches of its handler, if it has any.
    pub(crate) batch: Option<Batches>,
    /// How long the sessions of its clients live without a sign of life, if it serves any.
    pub(crate) life: Option<Duration>,
    /// If its handler's key is a place in a sequence.
    pub(crate) numbered: Option<Gaps>,
    /// Whether a table of its handler's own says what was handled.
    pub(crate) recorded: bool,
}

/// Which existing queues are asked for how they were declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    All,
    /// All but those for which somebody accepts that it is not known.
    ButAccepted,
}

/// What was told about one queue, and about those that belong to it.
#[derive(Debug, Clone)]
struct Answers {
    queue: Declaration,
    dead_letters: Declaration,
    /// How its queue of registrations was declared, if it has one.
    registrations: Option<Declaration>,
    /// What the worker would be refused when it declares those that are there.
    refusals: Vec<String>,
}

/// What was found, and how each queue is declared, in the order of the history: once for all routes of a queue.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) diagnoses: Vec<Diagnosis>,
    pub(crate) declarations: Vec<Declaration>,
}

impl Case {
    /// Whether both are routes of one queue.
    fn is_beside(&self, other: &Self) -> bool {
        self.queue.name() == other.queue.name()
    }
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
            native || !case.queue.is_ours()
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
        let mut declarations = Vec::new();
        for routes in self.queues.chunk_by(Case::is_beside) {
            let answers = answers(connection, &routes[0].queue, product, asked).await;
            declarations.push(answers.queue.clone());
            all.extend(routes.iter().map(|_| answers.clone()));
        }
        Visit {
            diagnoses: self.diagnoses(product, &all),
            declarations,
        }
    }

    /// What can be said without the broker.
    pub(crate) fn unvisited(&self) -> Vec<Diagnosis> {
        let answers = self.queues.iter().map(|case| Answers {
            queue: if case.queue.is_ours() {
                Declaration::Ours
            } else {
                Declaration::Hidden("the broker cannot be reached".into())
            },
            // That the one cannot be looked at says the same of the others.
            dead_letters: Declaration::Ours,
            registrations: None,
            refusals: Vec::new(),
        });
        self.diagnoses(Product::NotAsked, &answers.collect::<Vec<_>>())
    }

    fn diagnoses(&self, product: Product, answers: &[Answers]) -> Vec<Diagnosis> {
        let queues = self.queues.iter().zip(answers);
        let queues = queues.map(|(case, answers)| Patient {
            queue: &case.queue,
            handler: case.handler,
            policy: case.policy,
            life: case.life,
            at_once: case.at_once,
            sharing: case.sharing,
            batch: case.batch,
            numbered: case.numbered,
            recorded: case.recorded,
            declaration: answers.queue.clone(),
            dead_letters: answers.dead_letters.clone(),
            registrations: answers.registrations.clone(),
            refusals: answers.refusals.clone(),
        });
        examine(&Facts {
            broker: product,
            forgets: self.forgets,
            left_to_others: self.left_to_others,
            replay_window: self.replay_window,
            queues: queues.collect(),
        })
    }
}

async fn answers(
    connection: &Connection,
    queue: &Queue,
    product: Product,
    asked: Asked,
) -> Answers {
    Answers {
        queue: declaration(connection, queue, queue.name(), product, asked).await,
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
