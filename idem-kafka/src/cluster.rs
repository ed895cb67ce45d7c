//! Where Kafka is, and how to get in.

use std::{collections::BTreeMap, fmt};

use rdkafka::ClientConfig;

use crate::error::BuildError;

/// What the worker sets by itself: other values would lose records, or read them twice for nothing.
const OWN: [&str; 10] = [
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "enable.partition.eof",
    "acks",
    "request.required.acks",
    "transactional.id",
];

/// A Kafka cluster: its bootstrap servers, and settings of the client.
///
/// ```
/// use idem_kafka::Cluster;
///
/// let cluster = Cluster::new("kafka-1:9092,kafka-2:9092")
///     .set("security.protocol", "SASL_SSL")
///     .set("sasl.mechanism", "PLAIN")
///     .set("sasl.username", "orders")
///     .set("sasl.password", "secret");
/// # drop(cluster);
/// ```
///
/// The settings are those of [librdkafka](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md). The
/// worker sets `group.id` ([`Topic::group`](crate::Topic::group)), `enable.auto.commit`, `enable.auto.offset.store`,
/// `auto.offset.reset` ([`Topic::start_at`](crate::Topic::start_at)), `enable.partition.eof` and `acks` itself; it
/// refuses them here, their aliases, and `transactional.id`.
#[derive(Clone)]
pub struct Cluster {
    servers: String,
    settings: BTreeMap<String, String>,
}

impl Cluster {
    /// A cluster by some of its brokers: `host:port`, with commas between them.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self {
            servers: bootstrap_servers.into(),
            settings: BTreeMap::new(),
        }
    }

    /// Sets a setting of the client.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.servers.trim().is_empty() {
            return Err(BuildError::NoServers);
        }
        match self
            .settings
            .keys()
            .find(|name| OWN.contains(&name.as_str()))
        {
            Some(name) => Err(BuildError::OwnSetting { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// What consumers and producers have in common.
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers);
        config
    }

    fn finish(&self, config: &mut ClientConfig) {
        for (name, value) in &self.settings {
            config.set(name, value);
        }
    }

    /// Of a member of this group that reads this topic.
    pub(crate) fn consumer(&self, group: &str, topic: &str) -> ClientConfig {
        let mut config = self.client();
        // What Kafka sends ahead, for each partition.
        config.set("queued.max.messages.kbytes", "8192");
        if !self.settings.contains_key("group.protocol") {
            // A rebalance takes only those partitions away that move.
            config.set("partition.assignment.strategy", "cooperative-sticky");
        }
        self.finish(&mut config);
        if let Some(id) = self.settings.get("group.instance.id") {
            // A worker has a member for each topic, and two of one name would drive each other out.
            config.set("group.instance.id", format!("{id}-{topic}"));
        }
        config
            .set("group.id", group)
            // The store knows where to go on. Kafka is told for those who look there.
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            // With `error` the client reads a partition no more whose offset was not there. That the place is another
            // one is noticed by the offsets that come.
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "false");
        config
    }

    pub(crate) fn producer(&self) -> ClientConfig {
        let mut config = self.client();
        config
            .set("linger.ms", "5")
            .set("compression.type", "lz4")
            // What could be read can be published again; the broker has its own limit.
            .set("message.max.bytes", "1000000000")
            // That it cannot be published is told soon.
            .set("message.timeout.ms", "30000")
            // A repeat does no harm, and a producer with numbers may fail for good.
            .set("enable.idempotence", "false");
        self.finish(&mut config);
        config.set("acks", "all");
        config
    }
}

impl From<&str> for Cluster {
    fn from(servers: &str) -> Self {
        Self::new(servers)
    }
}

impl From<String> for Cluster {
    fn from(servers: String) -> Self {
        Self::new(servers)
    }
}

/// Without the values of the settings, which may be passwords.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("servers", &self.servers)
            .field("settings", &self.settings.keys())
            .finish()
    }
}
