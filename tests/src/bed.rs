//! Queues of one test's own on a private broker.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use idem_amqp::{
    Policy, Publisher, Queue, Store, Worker, WorkerBuilder, handler::Backoff, store::Purge,
};
use idem_servers::{Broker, rabbitmq};
use lapin::{BasicProperties, options::BasicRejectOptions, types::FieldTable};
use serde::Serialize;
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    journal::{LIMIT, eventually, looking},
    queue_type::tested,
    running::Running,
    script::{Order, Script, charge},
    subscriber,
};

mod exchanges;
mod letter;
mod line;
mod states;

pub use letter::DeadLetter;
use line::Line;

/// Queues of one test's own, and a client that owes nothing to `idem-amqp`.
#[derive(Debug)]
pub struct Bed {
    broker: Broker,
    url: String,
    vhost: String,
    name: String,
    queues: Mutex<Vec<String>>,
    line: Line,
}

/// Short waits between attempts, three of them.
pub const QUICK: Policy = Policy::builder()
    .backoff(Backoff::new(
        Duration::from_millis(20),
        Duration::from_millis(40),
    ))
    .max_attempts(3)
    .build_const();

/// Between two looks at queues, all of which have to find them empty. Each queue's counts are old by up to a quarter of
/// a second, each by its own age: a message that goes from one to another may be in neither. On a rung of a second or
/// more it rests for longer than this; it has left a shorter one by the third look.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
const LOOKS: usize = 3;

impl Bed {
    /// A queue on the broker that tests share, declared as a worker would.
    pub async fn new() -> Self {
        let bed = Self::bare().await;
        bed.declare(&bed.queue()).await;
        bed
    }

    /// A queue's name on the broker that tests share; nothing is declared.
    pub async fn bare() -> Self {
        let broker = spawn_blocking(rabbitmq::shared).await;
        let broker = broker
            .expect("starting a broker does not panic")
            .expect("a private RabbitMQ");
        Self::in_vhost(broker, "/")
    }

    /// A queue's name on a broker of the test's own; nothing is declared.
    pub fn on(broker: &Broker) -> Self {
        Self::in_vhost(broker, "/")
    }

    /// A queue's name in a vhost of the test's own; nothing is declared.
    pub async fn with_vhost() -> Self {
        let Self { broker, name, .. } = Self::bare().await;
        let (on, vhost) = (broker.clone(), name.clone());
        let added = spawn_blocking(move || on.add_vhost(&vhost)).await;
        added
            .expect("rabbitmqctl does not panic")
            .expect("a vhost of one's own");
        Self::in_vhost(&broker, &name)
    }

    fn in_vhost(broker: &Broker, vhost: &str) -> Self {
        subscriber::install();
        let name = format!("orders-{:016x}", fastrand::u64(..));
        let url = broker.vhost_url(vhost);
        Self {
            queues: Mutex::new(vec![name.clone(), dead(&name)]),
            line: Line::new(&url),
            broker: broker.clone(),
            vhost: vhost.into(),
            name,
            url,
        }
    }

    /// The broker's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The broker's URL by way of another port, with these query parameters.
    pub fn url_by(&self, port: u16, query: &str) -> String {
        let own = format!(":{}/", self.broker.port());
        format!("{}{query}", self.url.replace(&own, &format!(":{port}/")))
    }

    /// The broker.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The vhost's name.
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue: of the type under test, declared by the worker, with short waits between attempts.
    pub fn queue(&self) -> Queue {
        tested(&self.name).prefetch(16).policy(QUICK)
    }

    /// The same as a classic queue, whatever the type under test is.
    pub fn classic_queue(&self) -> Queue {
        Queue::classic(&self.name).prefetch(16).policy(QUICK)
    }

    /// A further name for a queue of this test's own.
    pub fn another(&self, what: &str) -> String {
        let name = format!("{}-{what}", self.name);
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.extend([name.clone(), dead(&name)]);
        name
    }

    /// A queue that somebody else declares, and that is the test's own all the same.
    pub fn also(&self, queue: &str) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.push(queue.to_owned());
    }

    fn names(&self) -> Vec<String> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.clone()
    }

    /// Declares a queue and its dead-letter queue, as a worker would. A busy RabbitMQ 3.10 answers that
    /// with an internal error now and then.
    ///
    /// # Panics
    /// If it is not declared: says why not.
    pub async fn declare(&self, queue: &Queue) {
        let publisher = Publisher::connect(&self.url).await.expect("a broker");
        eventually("the queue is declared", || publisher.declare(queue.clone())).await;
    }

    /// Declares a queue that is not as a worker would declare it.
    pub async fn declare_foreign(&self, queue: &str, arguments: FieldTable) {
        self.line.declare(queue, arguments).await;
    }

    /// Deletes a queue.
    pub async fn delete(&self, queue: &str) {
        self.line.delete(queue).await;
    }

    /// Starts a worker in this process.
    pub fn start<S, St>(&self, worker: WorkerBuilder<S, St>) -> Running
    where
        S: Store,
        St: Send + Sync + 'static,
    {
        Running::start(worker, &self.url)
    }

    /// Starts a worker in this process that handles orders as the script says.
    pub fn charging<S: Purge + Clone>(&self, store: S, script: &Script) -> Running {
        let worker = Worker::builder(store).state(script.clone());
        self.start(worker.consume::<charge>(self.queue()))
    }

    /// Publishes an order.
    pub async fn order(&self, id: &str) {
        self.json(&Order::new(id)).await;
    }

    /// Publishes an order to another queue.
    pub async fn order_to(&self, queue: &str, id: &str) {
        let body = serde_json::to_vec(&Order::new(id)).expect("JSON expresses orders");
        self.send(queue, &body, persistent()).await;
    }

    /// Publishes a value as JSON.
    pub async fn json(&self, message: &impl Serialize) {
        let body = serde_json::to_vec(message).expect("tests send what JSON can express");
        self.send(&self.name, &body, persistent()).await;
    }

    /// Publishes any body with any properties, as a foreign client would.
    pub async fn send(&self, queue: &str, body: &[u8], properties: BasicProperties) {
        self.line.send(queue, body, properties).await;
    }

    /// Rejects a message for good, as a foreign consumer would: the broker dead-letters it.
    pub async fn refuse(&self, queue: &str) {
        let for_good = BasicRejectOptions { requeue: false };
        self.line.reject(queue, for_good).await;
    }

    /// Returns a message to its queue, as a foreign consumer that fails would. This counts towards
    /// the delivery limit of a quorum queue.
    pub async fn give_back(&self, queue: &str) {
        let again = BasicRejectOptions { requeue: true };
        self.line.reject(queue, again).await;
    }

    /// How many messages wait in a queue, and how many consumers it has; `None` without a queue.
    pub async fn waiting(&self, queue: &str) -> Option<(u32, u32)> {
        self.line.waiting(queue).await
    }

    /// Waits until so many messages wait in the queue.
    pub async fn until_waiting(&self, messages: u32) {
        let awaited = format!("{messages} messages wait in {}", self.name);
        eventually(&awaited, async || match self.waiting(&self.name).await {
            Some((waiting, _)) if waiting == messages => Ok(()),
            seen => Err(seen),
        })
        .await;
    }

    /// Waits until no message waits in the test's queues, and none is with a consumer.
    ///
    /// # Panics
    /// If one is stuck. That is a defect, also if it shows under load alone: it is not worded as a wait in vain.
    pub async fn until_settled(&self) {
        let queues = self.names();
        let settled = looking("no message is stuck", async || {
            let mut stuck = self.stuck(&queues).await;
            for _ in 1..LOOKS {
                if stuck.is_empty() {
                    sleep(BETWEEN_LOOKS).await;
                    stuck = self.stuck(&queues).await;
                }
            }
            if stuck.is_empty() { Ok(()) } else { Err(stuck) }
        })
        .await;
        if let Err(stuck) = settled {
            panic!("stuck after {LIMIT:?}: {}", stuck.seen);
        }
    }

    /// Waits until the queue has so many consumers.
    pub async fn until_consumed(&self, queue: &str, consumers: u32) {
        let awaited = format!("{consumers} consumers of {queue}");
        eventually(&awaited, async || match self.waiting(queue).await {
            Some((_, seen)) if seen == consumers => Ok(()),
            seen => Err(seen),
        })
        .await;
    }

    /// Takes a dead letter out of the queue's dead-letter queue, waiting for it.
    pub async fn dead_letter(&self) -> DeadLetter {
        self.dead_letter_in(&dead(&self.name)).await
    }

    /// Takes a dead letter out of a dead-letter queue, waiting for it.
    pub async fn dead_letter_in(&self, queue: &str) -> DeadLetter {
        let awaited = format!("a dead letter in {queue}");
        eventually(&awaited, async || self.line.get(queue).await.ok_or("none")).await
    }

    /// Takes all messages out of a queue.
    pub async fn drain(&self, queue: &str) -> Vec<DeadLetter> {
        let mut messages = Vec::new();
        while let Some(message) = self.line.get(queue).await {
            messages.push(message);
        }
        messages
    }

    /// No message waits in the test's queues, dead letters included, and none is with a consumer.
    /// Then the queues are deleted.
    ///
    /// # Panics
    /// If it does not come to that.
    pub async fn assert_nothing_stuck(self) {
        self.until_settled().await;
        for queue in &self.names() {
            self.line.delete(queue).await;
        }
    }
}

/// The name of a queue's dead-letter queue.
pub fn dead(queue: &str) -> String {
    format!("{queue}.dead")
}

/// Properties of a message that survives a restart of the broker.
pub fn persistent() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2)
}
