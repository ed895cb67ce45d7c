//! Making sure that a program is there to be started, installing it where that can be done.

mod debian;
mod product;
mod root;

use std::{env, path::PathBuf};

use self::product::Product;
use crate::{
    Installed, Result, pgbouncer, postgres,
    rabbitmq::{self, Generation, Program},
    redis,
};

const RABBITMQ: Product = Product {
    name: "RabbitMQ",
    package: "rabbitmq-server",
    find: rabbitmq::installed,
};
const POSTGRES: Product = Product {
    name: "PostgreSQL",
    package: "postgresql",
    find: postgres::installed,
};
const REDIS: Product = Product {
    name: "Redis",
    package: "redis-server",
    find: redis::installed,
};
const PGBOUNCER: Product = Product {
    name: "PgBouncer",
    package: "pgbouncer",
    find: pgbouncer::installed,
};
const FAKETIME: Product = Product {
    name: "faketime",
    package: "faketime",
    find: || Installed::find("faketime", [PathBuf::from("/usr/bin")], &["faketime"]),
};

/// Where a broker comes from.
#[derive(Debug)]
pub enum RabbitMqSource {
    /// The one that `AMQP_URL` names.
    Given(String),
    /// A server to be started privately.
    Installed(Program),
}

/// Any broker: the one of `AMQP_URL`, else as [`installed_rabbitmq`].
///
/// # Errors
///
/// As [`installed_rabbitmq`].
pub fn rabbitmq() -> Result<RabbitMqSource> {
    match env::var("AMQP_URL") {
        Ok(url) if !url.is_empty() => Ok(RabbitMqSource::Given(url)),
        _ => installed_rabbitmq().map(RabbitMqSource::Installed),
    }
}

/// Makes sure of all that the tests start, with one run of the package manager for what is missing.
///
/// # Errors
///
/// Something is not there and cannot be installed, in words that say what to do.
pub fn all_for_tests() -> Result<()> {
    product::ensure(&[RABBITMQ, POSTGRES, REDIS, PGBOUNCER, FAKETIME])
}

/// Makes sure of the servers that one develops with, as [`all_for_tests`].
///
/// # Errors
///
/// As [`all_for_tests`].
pub fn all_for_development() -> Result<()> {
    product::ensure(&[RABBITMQ, POSTGRES, REDIS])
}

/// The RabbitMQ of this machine; on Debian and Ubuntu it is installed if need be, saying so. If
/// [`VERSION_VARIABLE`](rabbitmq::VERSION_VARIABLE) names a version, that one instead.
///
/// # Errors
///
/// It is not there and cannot be installed, in words that say what to do.
pub fn installed_rabbitmq() -> Result<Program> {
    match rabbitmq::wanted_generation()? {
        Some(generation) => rabbitmq_of(generation),
        None => RABBITMQ
            .installed()
            .and_then(|_| Program::of_this_machine()),
    }
}

/// A RabbitMQ of that generation: the machine's own, else one that is got once and kept.
///
/// # Errors
///
/// It is not there and cannot be got, in words that say what to do.
pub fn rabbitmq_of(generation: Generation) -> Result<Program> {
    Program::of(generation).or_else(|_| {
        root::ensure(generation)?;
        Program::of(generation)
    })
}

/// The PostgreSQL of this machine, as [`installed_rabbitmq`].
///
/// # Errors
///
/// As [`installed_rabbitmq`].
pub fn installed_postgres() -> Result<Installed> {
    POSTGRES.installed()
}

/// The Redis of this machine, as [`installed_rabbitmq`].
///
/// # Errors
///
/// As [`installed_rabbitmq`].
pub fn installed_redis() -> Result<Installed> {
    REDIS.installed()
}

/// The PgBouncer of this machine, as [`installed_rabbitmq`].
///
/// # Errors
///
/// As [`installed_rabbitmq`].
pub fn installed_pgbouncer() -> Result<Installed> {
    PGBOUNCER.installed()
}

/// The path of the program `faketime`, which shifts the clock of what it starts; as [`installed_rabbitmq`].
///
/// # Errors
///
/// As [`installed_rabbitmq`].
pub fn installed_faketime() -> Result<PathBuf> {
    Ok(FAKETIME.installed()?.program("faketime"))
}
