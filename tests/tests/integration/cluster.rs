//! A cluster of three nodes, of which one is killed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use idem_amqp::{
    Client, MemoryStore, Publication, PublishError, Publisher, Queue, Worker,
    executor::ExecutionKind as Kind, worker::Health,
};
use idem_servers::{RabbitMq, RabbitMqCluster};
use idem_tests::{
    bed::QUICK,
    journal::{LIMIT, eventually},
    leases::CreateLease,
    running::Running,
    script::{Order, Script, charge},
    servers::off_thread,
};
use lapin::{Connection, ConnectionProperties, options::BasicGetOptions};
use tokio::task::JoinHandle;

/// A worker that is connected to one node and consumes a queue that another one leads.
struct Consumer {
    queue: &'static str,
    script: Script,
    worker: Running,
    publishing: JoinHandle<usize>,
}

/// The queue is declared by way of the node that is to lead it; the worker may be on any node, of
/// which only this one will do.
async fn consumer(
    cluster: &RabbitMqCluster,
    queue: &'static str,
    leader: &RabbitMq,
    at: impl Fn(&str) -> bool,
    stop: &Arc<AtomicBool>,
) -> Consumer {
    let declared = Queue::quorum(queue).prefetch(8).policy(QUICK);
    let declaring = Publisher::connect(leader.amqp_url()).await.unwrap();
    declaring.declare(declared.clone()).await.unwrap();
    let urls = cluster.amqp_urls();
    let (script, worker) = loop {
        let script = Script::succeeding();
        let worker = Worker::builder(MemoryStore::new()).state(script.clone());
        let worker = Running::start(worker.consume::<charge>(declared.clone()), &urls);
        worker.until("it is ready", Health::is_ready).await;
        if at(&own_node(&worker)) {
            break (script, worker);
        }
        worker.stop().await;
    };
    let publisher = Publisher::connect(&urls).await.unwrap();
    Consumer {
        queue,
        script,
        worker,
        publishing: publish(publisher, queue, stop),
    }
}

/// Publishes orders until it is told to stop, each until it is confirmed, whatever becomes of the
/// connection meanwhile; answers how many.
fn publish(publisher: Publisher, queue: &'static str, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let stop = Arc::clone(stop);
    tokio::spawn(async move {
        let mut count = 0;
        while !stop.load(SeqCst) {
            let order = Order::new(&format!("o-{count}"));
            let order = Publication::json(queue, &order);
            eventually("the order is confirmed", || publisher.publish(&order)).await;
            count += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        count
    })
}

/// `127.0.0.1:PORT` of the node that the worker consumes from.
fn own_node(worker: &Running) -> String {
    let broker = worker.health().broker().expect("it is connected");
    let (node, _) = broker.split_once(' ').expect("the vhost follows");
    node.to_owned()
}

fn address(node: &RabbitMq) -> String {
    format!("127.0.0.1:{}", node.port())
}

impl Consumer {
    /// Waits until orders flow that were published after this call.
    async fn flows(&self) -> Instant {
        // All that the broker may hold of earlier ones, and some more.
        let more = self.script.effects.entries().len() + 20;
        self.script.effects.count("orders flow", more).await;
        Instant::now()
    }

    async fn nothing_is_lost_or_doubled(self) {
        let published = self.publishing.await.unwrap();
        self.worker.ended(Kind::Executed, published).await;
        let balance = self.worker.stop().await;
        println!("{}: {balance}; {}", self.queue, balance.incidents());
        let expected = (0..published).map(|number| format!("o-{number}"));
        self.script.assert_effects(expected);
    }
}

/// A node of a cluster is killed: it led the queue, or the worker was connected to it.
///
/// - does: goes on with the others
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn workers_go_on_when_the_leader_of_one_and_the_own_node_of_another_is_killed() {
    let cluster = Arc::new(off_thread(RabbitMqCluster::start).await);
    let [lasting, killed, _] = cluster.nodes() else {
        panic!("there are three nodes");
    };
    let stop = Arc::new(AtomicBool::new(false));
    let at_killed = |node: &str| node == address(killed);
    let elsewhere = |node: &str| node != address(killed);
    let loses_node = consumer(&cluster, "loses-its-node", lasting, at_killed, &stop).await;
    let loses_leader = consumer(&cluster, "loses-its-leader", killed, elsewhere, &stop).await;
    let consumers = [loses_node, loses_leader];
    for consumer in &consumers {
        consumer.flows().await;
    }

    let killing = Arc::clone(&cluster);
    off_thread(move || killing.nodes()[1].kill()).await;
    let dead = Instant::now();
    for consumer in &consumers {
        let back = consumer.flows().await;
        println!("{} flows again after {:?}", consumer.queue, back - dead);
        consumer.worker.until("it is ready", Health::is_ready).await;
        assert!(elsewhere(&own_node(&consumer.worker)));
    }
    stop.store(true, SeqCst);
    for consumer in consumers {
        consumer.nothing_is_lost_or_doubled().await;
    }
}

/// Most nodes of a cluster are gone and the queue has no leader, until one is back.
///
/// - does: reports what is published as refused, and publishes it when there is a leader. RabbitMQ 3.10 refuses for
///   ever on a channel that met the queue without a leader: another channel is taken
/// - atomic: once
/// - leased: once
///
/// What a channel first publishes to a quorum queue while that has no leader is refused, and on
/// RabbitMQ 3.10 so is all that it publishes after that, even when the queue has a leader again.
#[tokio::test]
async fn a_queue_that_had_no_leader_takes_messages_again_when_it_has_one() {
    let cluster = Arc::new(off_thread(RabbitMqCluster::start).await);
    let [leader, lasting, _] = cluster.nodes() else {
        panic!("there are three nodes");
    };
    let declaring = Publisher::connect(leader.amqp_url()).await.unwrap();
    declaring.declare("orders").await.unwrap();
    let publisher = Publisher::connect(lasting.amqp_url()).await.unwrap();
    let client = Client::builder().queue("orders").deadline(10 * LIMIT);
    let client = client.connect(lasting.amqp_url()).await.unwrap();
    let others = Arc::clone(&cluster);
    off_thread(move || {
        others.nodes()[0].kill()?;
        others.nodes()[2].kill()
    })
    .await;

    let order = Publication::json("orders", &Order::new("o-0"));
    let refused = publisher.publish(&order).await;
    let is_refusal = matches!(refused, Err(PublishError::Refused { .. }));
    assert!(is_refusal, "{refused:?}");
    let calling = client.clone();
    let calling = tokio::spawn(async move { calling.call(&CreateLease::of("printer")).await });
    eventually("the client tries again", || async {
        let tries = client.counts().tries;
        if tries > 1 { Ok(()) } else { Err(tries) }
    })
    .await;

    let others = Arc::clone(&cluster);
    off_thread(move || others.nodes()[2].restart()).await;
    eventually("the order is confirmed", || publisher.publish(&order)).await;
    let raw = Connection::connect(&lasting.amqp_url(), ConnectionProperties::default()).await;
    let reading = raw.unwrap().create_channel().await.unwrap();
    eventually("the client's request arrives", || async {
        let acked = BasicGetOptions { no_ack: true };
        let got = reading.basic_get("orders".into(), acked).await.unwrap();
        let got = got.map(|message| message.delivery.properties);
        let asks = got
            .as_ref()
            .is_some_and(|properties| properties.reply_to().is_some());
        if asks { Ok(()) } else { Err(got) }
    })
    .await;
    calling.abort();
}
