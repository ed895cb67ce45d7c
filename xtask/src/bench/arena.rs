//! The servers that contestants consume from and keep their keys in.

use serde::de::DeserializeOwned;

use super::{StoreKind, consume::Contestant, program::Program, server};
use crate::{
    Result,
    services::{Postgres, RabbitMq, Redis},
};

const QUEUE: &str = "bench";
const DATABASE: &str = "bench";

/// A broker for all contestants, and the databases that some of them need.
#[derive(Debug)]
pub(crate) struct Arena<'a> {
    program: &'a Program,
    broker: RabbitMq,
    postgres: Option<Postgres>,
    redis: Option<Redis>,
}

impl<'a> Arena<'a> {
    /// Starts the servers.
    pub(crate) fn open(program: &'a Program, contestants: &[Contestant]) -> Result<Self> {
        let is_wanted = |store| {
            let mut contestants = contestants.iter();
            contestants.any(|contestant| contestant.server() == Some(store))
        };
        let postgres = is_wanted(StoreKind::Postgres).then(server::postgres);
        let redis = is_wanted(StoreKind::Redis).then(server::redis);
        Ok(Self {
            program,
            broker: server::rabbitmq()?,
            postgres: postgres.transpose()?,
            redis: redis.transpose()?,
        })
    }

    /// Lets the program do something with the queue.
    pub(crate) fn bench<T: DeserializeOwned>(
        &self,
        what: &str,
        messages: u32,
        options: &[&str],
    ) -> Result<Vec<T>> {
        let (url, messages) = (self.broker.amqp_url(), messages.to_string());
        let place = [
            what,
            "--amqp-url",
            &url,
            "--queue",
            QUEUE,
            "--messages",
            &messages,
        ];
        self.program.run(&[&place, options].concat())
    }

    /// Lets a contestant do something with the queue, with a store that knows nothing yet, and returns
    /// what it told.
    pub(crate) fn let_act<T: DeserializeOwned>(
        &self,
        contestant: Contestant,
        what: &str,
        messages: u32,
        options: &[&str],
    ) -> Result<T> {
        let (store_url, name) = (self.empty_store(contestant)?, contestant.name());
        let mut all = vec!["--contestant", &name];
        all.extend(store_url.iter().flat_map(|url| ["--store-url", url]));
        all.extend(options);
        let told = self.bench(what, messages, &all)?;
        Ok(told
            .into_iter()
            .next()
            .expect("a contestant that succeeds tells"))
    }

    /// The URL of a database or a Redis without any key.
    fn empty_store(&self, contestant: Contestant) -> Result<Option<String>> {
        match (contestant.server(), &self.postgres, &self.redis) {
            (Some(StoreKind::Postgres), Some(server), _) => {
                server.drop_database(DATABASE)?;
                server.create_database(DATABASE).map(Some)
            }
            (Some(StoreKind::Redis), _, Some(server)) => {
                server.cli(["FLUSHALL"])?;
                Ok(Some(server.url()))
            }
            _ => Ok(None),
        }
    }
}
