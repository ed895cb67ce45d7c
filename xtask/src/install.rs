//! Making sure that a server is there to be started, installing it where that can be done.

mod debian;

use std::env;

use crate::{
    Error, Result,
    services::{Installed, rabbitmq},
};

/// Where a broker comes from.
#[derive(Debug)]
#[non_exhaustive]
pub enum RabbitMqSource {
    /// The one that `AMQP_URL` names.
    Given(String),
    /// A server of this machine, to be started privately.
    Installed(Installed),
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

/// The RabbitMQ of this machine; on Debian and Ubuntu it is installed if need be, saying so.
///
/// # Errors
///
/// It is not there and cannot be installed, in words that say what to do.
pub fn installed_rabbitmq() -> Result<Installed> {
    if let Ok(installed) = rabbitmq::installed() {
        return Ok(installed);
    }
    debian::install("RabbitMQ", &["rabbitmq-server"]).map_err(explained)?;
    rabbitmq::installed()
}

fn explained(reason: Error) -> Error {
    match reason {
        Error::Missing(reason) => Error::Missing(format!(
            "RabbitMQ is not here, and {reason}. Either\n\
             - install it: `sudo apt-get install rabbitmq-server` on Debian and Ubuntu, the package of that name \
             elsewhere on Linux; its service need not run, private servers are started from it; or\n\
             - for `cargo xtask demo`, name a running one: `export AMQP_URL=amqp://user:password@host:5672/%2f`; or\n\
             - with Docker: `docker compose up --detach --wait`, then `export AMQP_URL=amqp://127.0.0.1:5672/%2f`"
        )),
        other => other,
    }
}
