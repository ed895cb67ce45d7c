//! The servers that all tests share, started once.

use std::thread::{self, ScopedJoinHandle};

use idem_servers::{
    Postgres, RabbitMq, Redis, RedisCluster, Result, TestServers, install, rabbitmq::Program,
};

use super::{memory, steps::Steps};

/// Installs what is missing, then starts all at once: this RabbitMQ, or the one of the machine.
pub(crate) fn start(steps: &mut Steps, rabbitmq: Option<&Program>) -> TestServers {
    steps.attempt("programs of the servers", install::all_for_tests);
    memory::keep_temporary_files();
    thread::scope(|scope| {
        let rabbitmq = scope.spawn(|| match rabbitmq {
            Some(program) => RabbitMq::start_program(program),
            None => RabbitMq::start_program(&install::installed_rabbitmq()?),
        });
        let postgres = scope.spawn(Postgres::start);
        let redis = scope.spawn(Redis::start);
        let cluster = scope.spawn(RedisCluster::start);
        TestServers {
            rabbitmq: steps.attempt("private RabbitMQ", || started(rabbitmq)),
            postgres: steps.attempt("private PostgreSQL", || started(postgres)),
            redis: steps.attempt("private Redis", || started(redis)),
            cluster: steps.attempt("private Redis Cluster", || started(cluster)),
        }
    })
}

fn started<T>(starting: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    starting.join().expect("starting a server does not panic")
}
