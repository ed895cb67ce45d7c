//! The servers that all tests share, started once.

use std::{
    process::Command,
    thread::{self, ScopedJoinHandle},
};

use super::steps::Steps;
use idem_servers::{
    Postgres, RabbitMq, Redis, RedisCluster, Result, Server, install, postgres,
    rabbitmq::{self, Program},
    redis,
};

/// What could be started. Without a server the tests that need it start their own, fail like us and
/// say how to get it; the others run.
#[derive(Debug)]
pub(crate) struct Servers {
    rabbitmq: Option<RabbitMq>,
    postgres: Option<Postgres>,
    redis: Option<Redis>,
    cluster: Option<RedisCluster>,
}

impl Servers {
    /// Installs what is missing, then starts all at once: this RabbitMQ, or the one of the machine.
    pub(crate) fn start(steps: &mut Steps, rabbitmq: Option<&Program>) -> Self {
        steps.attempt("programs of the servers", install::all_for_tests);
        thread::scope(|scope| {
            let rabbitmq = scope.spawn(|| match rabbitmq {
                Some(program) => RabbitMq::start_program(program),
                None => RabbitMq::start_program(&install::installed_rabbitmq()?),
            });
            let postgres = scope.spawn(Postgres::start);
            let redis = scope.spawn(Redis::start);
            let cluster = scope.spawn(RedisCluster::start);
            Self {
                rabbitmq: steps.attempt("private RabbitMQ", || started(rabbitmq)),
                postgres: steps.attempt("private PostgreSQL", || started(postgres)),
                redis: steps.attempt("private Redis", || started(redis)),
                cluster: steps.attempt("private Redis Cluster", || started(cluster)),
            }
        })
    }

    /// Those of a store alone, if it has any.
    pub(crate) fn of_store(steps: &mut Steps, store: &str) -> Self {
        let is_redis = store == "redis";
        let is_postgres = store == "postgres";
        Self {
            rabbitmq: None,
            postgres: is_postgres
                .then(|| steps.attempt("private PostgreSQL", Postgres::start))
                .flatten(),
            redis: is_redis
                .then(|| steps.attempt("private Redis", Redis::start))
                .flatten(),
            cluster: is_redis
                .then(|| steps.attempt("private Redis Cluster", RedisCluster::start))
                .flatten(),
        }
    }

    /// Tells test binaries where the servers are.
    pub(crate) fn hand_to(&self, tests: &mut Command) {
        if let Some(rabbitmq) = &self.rabbitmq {
            tests.env(rabbitmq::FOLDER_VARIABLE, rabbitmq.folder());
        }
        if let Some(postgres) = &self.postgres {
            tests.env(postgres::FOLDER_VARIABLE, postgres.folder());
        }
        if let Some(redis) = &self.redis {
            tests.env(redis::FOLDER_VARIABLE, redis.folder());
        }
        if let Some(cluster) = &self.cluster {
            tests.env(redis::CLUSTER_FOLDERS_VARIABLE, cluster.folders());
        }
    }
}

fn started<T>(starting: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    starting.join().expect("starting a server does not panic")
}
