//! RabbitMQ: a private broker from the installed server.

mod broker;
mod circle;
mod cluster;
mod layout;
mod leader;
mod listing;
mod port_mapper;

use std::path::{Path, PathBuf};

pub(crate) use self::circle::Circle;
pub use self::{broker::Broker, cluster::RabbitMqCluster, listing::QueueState};
use super::{Installed, Private, Server, shared::Shared};
use crate::Result;

/// The variable with which `cargo xtask test` hands the folder of its broker to test binaries.
pub const FOLDER_VARIABLE: &str = "IDEM_TEST_RABBITMQ";

/// A RabbitMQ of one's own: its ports, its data, its Erlang port mapper; gone when dropped.
///
/// Killed, RabbitMQ may forget what was declared moments before: declare,
/// [`restart`](Private::restart) cleanly once, then [`kill`](Private::kill).
pub type RabbitMq = Private<Broker>;

impl Private<Broker> {
    /// Starts a broker and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// RabbitMQ is not installed, or did not come up; the end of its log is in the error.
    pub fn start() -> Result<Self> {
        let installed = installed()?;
        Self::create(|folder| Broker::lay_out(folder, &installed, &Circle::Alone))
    }
}

/// The broker that ordinary tests share: the one of `cargo xtask test` if it runs us, else one
/// of our own, started on the first call and gone with this process.
///
/// Isolate tests from each other by a vhost each ([`Broker::add_vhost`]).
///
/// # Errors
///
/// As [`RabbitMq::start`].
pub fn shared() -> Result<&'static Broker> {
    static SHARED: Shared<RabbitMq> = Shared::new();
    SHARED.get(
        FOLDER_VARIABLE,
        |folder| Broker::attach(Path::new(folder)),
        RabbitMq::start,
    )
}

/// The plain scripts come first: what the package puts on the `PATH` insists on root and on the
/// system's own server.
pub(crate) fn installed() -> Result<Installed> {
    let usual = [PathBuf::from("/usr/lib/rabbitmq/bin")];
    let scripts = ["rabbitmq-server", "rabbitmqctl", "rabbitmq-env"];
    Installed::find("RabbitMQ", usual, &scripts)
}
