//! The servers that contestants consume from and keep their keys in.

use super::{
    super::{StoreKind, program::Program, server},
    Contestant, Finish,
    plan::{Heat, Plan},
};
use crate::{
    Result,
    services::{Postgres, RabbitMq, Redis},
};

const QUEUE: &str = "bench";
const DATABASE: &str = "bench";

/// A broker for all heats, and the databases that some contestants need.
#[derive(Debug)]
pub(crate) struct Arena<'a> {
    program: &'a Program,
    messages: u32,
    broker: RabbitMq,
    postgres: Option<Postgres>,
    redis: Option<Redis>,
}

impl<'a> Arena<'a> {
    /// Starts the servers, and lets a heat be run that nobody hears of: a broker's first messages
    /// are slow.
    pub(crate) fn open(program: &'a Program, plan: &Plan) -> Result<Self> {
        let is_wanted = |store| {
            let mut contestants = plan.contestants().iter();
            contestants.any(|contestant| contestant.server() == Some(store))
        };
        let postgres = is_wanted(StoreKind::Postgres).then(server::postgres);
        let redis = is_wanted(StoreKind::Redis).then(server::redis);
        let arena = Self {
            program,
            messages: plan.messages(),
            broker: server::rabbitmq()?,
            postgres: postgres.transpose()?,
            redis: redis.transpose()?,
        };
        if let Some(first) = plan.heats().next() {
            arena.hold(&first)?;
        }
        Ok(arena)
    }

    /// Fills a queue and lets the contestant consume it, with a store that knows nothing yet.
    pub(crate) fn hold(&self, heat: &Heat) -> Result<Finish> {
        let store_url = self.empty_store(heat.contestant)?;
        self.bench("load", &["--kind", heat.setting.queue.name()])?;
        let (prefetch, contestant) = (heat.setting.prefetch.to_string(), heat.contestant.name());
        let mut options = vec!["--prefetch", &prefetch, "--contestant", &contestant];
        options.extend(store_url.iter().flat_map(|url| ["--store-url", url]));
        let finishes = self.bench("consume", &options)?;
        Ok(*finishes.first().expect("a contestant that succeeds tells"))
    }

    fn bench(&self, what: &str, options: &[&str]) -> Result<Vec<Finish>> {
        let (url, messages) = (self.broker.amqp_url(), self.messages.to_string());
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
