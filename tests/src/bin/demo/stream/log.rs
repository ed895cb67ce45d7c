//! Where the postings come from: a stream of RabbitMQ, or a topic of Kafka.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use idem_amqp::{Key, Publication, Publisher};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    mocking::MockCluster,
    producer::{DefaultProducerContext, FutureProducer, FutureRecord},
    util::Timeout,
};
use serde_json::Value;
use tokio::{task::spawn_blocking, time::sleep};

use crate::{run::Run, servers::Broker};

/// As the example has it.
const SCOPE: &str = "ledger.book";
/// Services share so many.
pub(super) const PARTITIONS: usize = 3;
/// Unconfirmed at once.
const IN_FLIGHT: usize = 64;
/// So many are published at once, and then nothing for so long: there is work left when services join and are killed.
const PORTION: usize = 25;
const PAUSE: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const ANSWER: Duration = Duration::from_secs(30);

/// What keeps the postings.
#[derive(Clone, Copy, Debug, clap::ValueEnum, PartialEq, Eq)]
pub(super) enum Source {
    /// A stream of a RabbitMQ, private unless `AMQP_URL` names one
    Rabbitmq,
    /// A topic of Kafka: of a mock cluster in this program, unless `KAFKA_URL` names one
    Kafka,
}

/// A log of this run alone: the broker may be one with other things on it.
pub(super) struct Log {
    name: String,
    broker: Server,
}

enum Server {
    RabbitMq(Broker),
    Kafka {
        servers: String,
        _mock: Option<MockCluster<'static, DefaultProducerContext>>,
    },
}

impl Log {
    /// Tells the run where it is.
    pub(super) async fn open(source: Source, run: &mut Run) -> Result<Self> {
        let name = format!("ledger.{}", run.name());
        run.tell("STREAM", name.clone());
        let broker = match source {
            Source::Rabbitmq => {
                let broker = Broker::open()?;
                run.tell("AMQP_URL", broker.url.clone());
                run.tell("PARTITIONS", PARTITIONS.to_string());
                Server::RabbitMq(broker)
            }
            Source::Kafka => {
                let (servers, mock) = kafka(&name).await?;
                run.tell("KAFKA_URL", servers.clone());
                Server::Kafka {
                    servers,
                    _mock: mock,
                }
            }
        };
        Ok(Self { name, broker })
    }

    /// Where the marks of its partitions are kept.
    pub(super) fn marks(&self) -> Result<Vec<Key>> {
        let partition = |partition| match self.broker {
            Server::RabbitMq(_) => format!("{}-{partition}", self.name),
            Server::Kafka { .. } => format!("kafka:{}:{partition}", self.name),
        };
        let keys = (0..PARTITIONS).map(|number| Key::new(SCOPE, partition(number)));
        keys.collect::<Result<_, _>>()
            .context("the name makes a key")
    }

    /// Waits until it is there: the service declares a stream.
    pub(super) async fn until_declared(&self, patience: Duration) -> Result<()> {
        let Server::RabbitMq(broker) = &self.broker else {
            return Ok(());
        };
        let began = Instant::now();
        for partition in 0..PARTITIONS {
            while let Err(error) = broker.ready(&format!("{}-{partition}", self.name)).await {
                ensure!(
                    began.elapsed() < patience,
                    "the stream is not there: {error:#}"
                );
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Publishes each to its partition, in this order.
    pub(super) fn publish(
        &self,
        messages: Vec<(usize, Value)>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let name = self.name.clone();
        let (amqp, kafka) = match &self.broker {
            Server::RabbitMq(broker) => (Some(broker.url.clone()), None),
            Server::Kafka { servers, .. } => (None, Some(servers.clone())),
        };
        async move {
            match (amqp, kafka) {
                (Some(url), _) => to_stream(url, &name, messages).await,
                (_, Some(servers)) => to_topic(&servers, &name, messages).await,
                (None, None) => Ok(()),
            }
        }
    }

    /// How many messages the service could not read.
    pub(super) async fn dead(&self) -> Result<u32> {
        match &self.broker {
            Server::RabbitMq(broker) => broker.ready(&format!("{}~{SCOPE}.dead", self.name)).await,
            Server::Kafka { servers, .. } => {
                let consumer: BaseConsumer = client(servers).create()?;
                let topic = format!("{}.dead", self.name);
                let ends = spawn_blocking(move || consumer.fetch_watermarks(&topic, 0, ANSWER));
                let (_, end) = ends.await??;
                Ok(u32::try_from(end)?)
            }
        }
    }
}

/// The cluster, with the topic and that for what fails.
async fn kafka(
    topic: &str,
) -> Result<(String, Option<MockCluster<'static, DefaultProducerContext>>)> {
    let topics = [
        (topic.to_owned(), i32::try_from(PARTITIONS)?),
        (format!("{topic}.dead"), 1),
    ];
    if let Ok(servers) = std::env::var("KAFKA_URL") {
        println!("Kafka: the one that KAFKA_URL names");
        let admin: AdminClient<DefaultClientContext> = client(&servers).create()?;
        let new = topics.each_ref().map(|(topic, partitions)| {
            NewTopic::new(topic, *partitions, TopicReplication::Fixed(1))
        });
        for made in admin.create_topics(&new, &AdminOptions::new()).await? {
            made.map_err(|(topic, error)| anyhow!("the topic {topic} cannot be made: {error}"))?;
        }
        return Ok((servers, None));
    }
    let mock = MockCluster::new(1)?;
    for (topic, partitions) in &topics {
        mock.create_topic(topic, *partitions, 1)?;
    }
    println!("Kafka: the mock cluster of librdkafka, in this program");
    Ok((mock.bootstrap_servers(), Some(mock)))
}

fn client(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    config
}

async fn to_stream(url: String, stream: &str, messages: Vec<(usize, Value)>) -> Result<()> {
    let publisher = Publisher::connect(url).await?;
    let publish = |(partition, message): (usize, Value)| {
        let publisher = publisher.clone();
        let message = Publication::json(stream, &message).exchange(stream, &partition.to_string());
        async move { Ok(publisher.publish(&message).await?) }
    };
    in_portions(messages, publish).await
}

async fn to_topic(servers: &str, topic: &str, messages: Vec<(usize, Value)>) -> Result<()> {
    let producer: FutureProducer = client(servers).set("acks", "all").create()?;
    let publish = |(partition, message): (usize, Value)| {
        let producer = producer.clone();
        async move {
            let body = message.to_string();
            let record = FutureRecord::<str, str>::to(topic)
                .partition(i32::try_from(partition)?)
                .payload(&body);
            let sent = producer.send(record, Timeout::After(ANSWER)).await;
            sent.map_err(|(error, _)| error)?;
            Ok(())
        }
    };
    in_portions(messages, publish).await
}

/// Publishes a portion, waits until it is confirmed, then a little, and publishes the next one.
async fn in_portions<F: Future<Output = Result<()>>>(
    messages: Vec<(usize, Value)>,
    publish: impl Fn((usize, Value)) -> F,
) -> Result<()> {
    for portion in messages.chunks(PORTION) {
        let publishing = portion.iter().cloned().map(&publish);
        let mut confirmed = stream::iter(publishing).buffered(IN_FLIGHT);
        while confirmed.try_next().await?.is_some() {}
        sleep(PAUSE).await;
    }
    Ok(())
}
