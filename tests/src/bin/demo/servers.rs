//! The broker and the store of a demonstration: private ones, unless variables name others.

use std::{
    env,
    fmt::{self, Debug},
    time::Instant,
};

use anyhow::{Result, bail};
use idem_servers::{
    Postgres, RabbitMq, Redis,
    install::{self, RabbitMqSource},
};
use lapin::{Connection, ConnectionProperties, options::QueueDeclareOptions, types::FieldTable};

/// A kind of store that the examples can use.
#[derive(Clone, Copy, Debug, clap::ValueEnum, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// One SQLite file, shared by all programs
    Sqlite,
    /// A PostgreSQL server, private unless `STORE_URL` names one
    Postgres,
    /// A Redis server, private unless `STORE_URL` names one
    Redis,
}

/// A store, there as long as this is.
#[derive(Debug)]
pub(crate) struct Store {
    /// None of a file, which is in the folder of the run.
    pub(crate) url: Option<String>,
    _server: Option<Box<dyn Debug>>,
}

/// A broker, there as long as this is.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) url: String,
    /// The server, if it is ours to be asked.
    pub(crate) private: Option<RabbitMq>,
}

impl Broker {
    /// The one that `AMQP_URL` names, else a private one.
    pub(crate) fn open() -> Result<Self> {
        if let RabbitMqSource::Given(url) = install::rabbitmq()? {
            println!("RabbitMQ: the one that AMQP_URL names");
            return Ok(Self { url, private: None });
        }
        let start = Instant::now();
        let server = RabbitMq::start()?;
        tell_private("RabbitMQ", server.port(), start);
        Ok(Self {
            url: server.amqp_url(),
            private: Some(server),
        })
    }

    /// How many messages wait in a queue. Exact at once, where the list of queues lags a little.
    pub(crate) async fn ready(&self, queue: &str) -> Result<u32> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let queue = channel.queue_declare(queue.into(), passive, FieldTable::default());
        let ready = queue.await?.message_count();
        connection.close(200, "done".into()).await?;
        Ok(ready)
    }
}

impl Store {
    /// The one that `STORE_URL` names, else a private one that keeps what it is told.
    pub(crate) fn open(kind: StoreKind) -> Result<Self> {
        let given = env::var("STORE_URL").ok().filter(|url| !url.is_empty());
        let start = Instant::now();
        let (url, port, server): (_, _, Option<Box<dyn Debug>>) = match (kind, given) {
            (StoreKind::Sqlite, _) => return Ok(Self::new(None, None)),
            (_, Some(url)) => {
                kind.check(&url)?;
                println!("{kind}: the one that STORE_URL names; charges and records stay there");
                return Ok(Self::new(Some(url), None));
            }
            (StoreKind::Postgres, None) => {
                install::installed_postgres()?;
                let server = Postgres::start_with(&[("fsync", "on")])?;
                (server.url(), server.port(), Some(Box::new(server)))
            }
            (StoreKind::Redis, None) => {
                install::installed_redis()?;
                let server = Redis::start_with(&[("appendonly", "yes")])?;
                (server.url(), server.port(), Some(Box::new(server)))
            }
        };
        tell_private(&kind.to_string(), port, start);
        Ok(Self::new(Some(url), server))
    }

    fn new(url: Option<String>, server: Option<Box<dyn Debug>>) -> Self {
        Self {
            url,
            _server: server,
        }
    }
}

fn tell_private(product: &str, port: u16, start: Instant) {
    let took = start.elapsed();
    println!("{product}: a private one on port {port}, up in {took:.1?}");
}

impl StoreKind {
    /// Whether the URL is one of this kind. Whoever has set another may want something else than what will be shown.
    fn check(self, url: &str) -> Result<()> {
        let scheme = url.split(':').next().unwrap_or_default();
        let (option, schemes) = match self {
            Self::Sqlite => ("sqlite", ["sqlite", ""]),
            Self::Postgres => ("postgres", ["postgres", "postgresql"]),
            Self::Redis => ("redis", ["redis", ""]),
        };
        if !schemes.contains(&scheme) {
            bail!(
                "STORE_URL begins with `{scheme}:`, which `--store {option}` does not fit: change either, or unset STORE_URL for a private server"
            );
        }
        Ok(())
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::StoreKind;

    #[test]
    fn a_url_of_another_kind_of_store_is_refused() {
        for (kind, url) in [
            (StoreKind::Postgres, "postgres://db/orders"),
            (StoreKind::Postgres, "postgresql://db/orders"),
            (StoreKind::Redis, "redis://cache/0"),
        ] {
            kind.check(url).expect("it fits");
        }
        let refused = StoreKind::Redis.check("postgres://db");
        let error = refused.expect_err("it does not fit").to_string();
        assert!(error.contains("`postgres:`"), "{error}");
    }
}
