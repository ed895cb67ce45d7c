//! RabbitMQ: a private broker from the installed server, or from one of another version.

mod boots;
mod broker;
mod cluster;
mod cluster_membership;
mod console;
mod launching;
mod layout;
mod leader;
mod listing;
mod outside;
mod port_mapper;
mod program;
mod root;
mod tuning;
mod version;

use std::path::Path;

use self::tuning::Tuning;
pub use self::{
    broker::Broker,
    cluster::RabbitMqCluster,
    listing::QueueState,
    program::{Program, VERSION_VARIABLE},
    version::{Generation, Version},
};
pub(crate) use self::{
    cluster_membership::ClusterMembership,
    program::{installed, wanted_generation},
    root::place_of,
};
use super::{
    Private, Server,
    shared::{AtUrl, Shared},
};
use crate::Result;

/// The variable with which `cargo xtask test` hands the folder of its broker to test binaries.
pub const FOLDER_VARIABLE: &str = "IDEM_TEST_RABBITMQ";

/// The variable that names the type of the queues that the integration tests use: `quorum`, also
/// if it is not set, or `classic`.
pub const QUEUES_VARIABLE: &str = "IDEM_TEST_QUEUES";

/// A RabbitMQ of one's own: its ports, its data, its Erlang port mapper; gone when dropped.
///
/// Killed, RabbitMQ may forget what was declared moments before: declare,
/// [`restart`](Private::restart) cleanly once, then [`kill`](Private::kill).
pub type RabbitMq = Private<Broker>;

impl Private<Broker> {
    /// Starts a broker of the version that [`VERSION_VARIABLE`] names, by default the machine's own,
    /// and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// RabbitMQ is not installed, or did not come up; the end of its log is in the error.
    pub fn start() -> Result<Self> {
        Self::start_program(&Program::wanted()?)
    }

    /// As [`start`](Self::start), with RabbitMQ's own settings throughout: it boots more slowly, and
    /// leaves the processor to others while it waits.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_as_in_production() -> Result<Self> {
        let program = Program::wanted()?;
        Self::create(|folder| {
            let broker = Broker::lay_out(folder, &program, &ClusterMembership::Alone)?;
            Ok(broker.tuned(Tuning::Production))
        })
    }

    /// As [`start`](Self::start), of this program.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_program(program: &Program) -> Result<Self> {
        Self::of(program, &ClusterMembership::Alone)
    }

    fn of(program: &Program, membership: &ClusterMembership) -> Result<Self> {
        let _permit = boots::permit();
        Self::create(|folder| Broker::lay_out(folder, program, membership))
    }
}

/// The broker that ordinary tests share: the one of `cargo xtask test` if it runs us, else the one that `AMQP_URL`
/// names, else one of our own, started on the first call and gone with this process.
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
        Some(AtUrl {
            variable: "AMQP_URL",
            like: "amqp://127.0.0.1:PORT/%2f",
            server: Broker::at,
        }),
        RabbitMq::start,
    )
}
