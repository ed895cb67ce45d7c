//! What can be asked of a broker that runs, by its owner or by another process.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    Program, Version, cluster_membership::ClusterMembership, layout::Layout, tuning::Tuning,
};
use crate::{Error, Result, Server, probe, url::percent_encoded, watchdog::Launch};

const PROTOCOL_HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";

/// A running private broker: its address and its administration.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Broker {
    layout: Layout,
}

impl Server for Broker {
    const PRODUCT: &'static str = "RabbitMQ";
    /// Beside a build on two cores, several brokers that start at once take minutes.
    const BOOT_LIMIT: Duration = Duration::from_mins(4);

    fn folder(&self) -> &Path {
        self.layout.folder()
    }

    /// The greeting, `connection.start`, carries the node's name, with the machine's host name behind it.
    fn is_ready(&self) -> bool {
        let name = format!("{}@", self.layout.name());
        probe::answers(self.port(), PROTOCOL_HEADER, &name)
            && (!self.layout.is_private() || self.console_is_open())
    }

    fn launch(&self) -> Launch {
        self.layout.launch()
    }

    fn log(&self) -> PathBuf {
        self.layout.log()
    }
}

impl Broker {
    pub(crate) fn lay_out(
        folder: &Path,
        program: &Program,
        membership: &ClusterMembership,
    ) -> Result<Self> {
        let layout = Layout::create(folder, program, membership)?;
        Ok(Self { layout })
    }

    pub(super) fn of(layout: Layout) -> Self {
        Self { layout }
    }

    pub(super) fn tuned(self, tuning: Tuning) -> Self {
        let layout = self.layout.tuned(tuning);
        Self { layout }
    }

    /// The version of its RabbitMQ.
    pub fn version(&self) -> Version {
        self.layout.version()
    }

    /// The port for AMQP on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.layout.amqp_port()
    }

    /// Its name among Erlang nodes, as `rabbitmqctl` writes it.
    pub fn node(&self) -> String {
        self.layout.node()
    }

    /// The URL of the default vhost, for the user `guest`.
    pub fn amqp_url(&self) -> String {
        self.vhost_url("/")
    }

    /// The URL of a vhost, for the user `guest`.
    pub fn vhost_url(&self, vhost: &str) -> String {
        format!(
            "amqp://guest:guest@127.0.0.1:{}/{}",
            self.port(),
            percent_encoded(vhost)
        )
    }

    /// Whether this process can talk to it by other means than `rabbitmqctl`, and no other node has a say.
    pub(super) fn answers_for_itself(&self) -> bool {
        self.layout.is_private() && self.layout.is_alone()
    }

    /// Runs `rabbitmqctl` against this broker and returns what it printed; takes about 0.3 s.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] with what it said. A broker that is down or frozen is an error too.
    pub fn rabbitmqctl<S: AsRef<str>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String> {
        let arguments: Vec<_> = arguments
            .into_iter()
            .map(|argument| argument.as_ref().to_owned())
            .collect();
        let output = self
            .layout
            .ctl()
            .args(["--timeout", "30", "--silent"])
            .args(&arguments)
            .output()
            .map_err(Error::io("run rabbitmqctl"))?;
        if !output.status.success() {
            return Err(Error::command(
                format!("rabbitmqctl {}", arguments.join(" ")),
                &output,
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates a vhost in which `guest` may do everything, and returns its URL.
    ///
    /// # Errors
    ///
    /// As [`rabbitmqctl`](Self::rabbitmqctl); a vhost that exists is not an error.
    pub fn add_vhost(&self, name: &str) -> Result<String> {
        if self.answers_for_itself() {
            self.evaluate(&format!(
                "ok = rabbit_vhost:add(<<{name:?}/utf8>>, <<\"guest\">>), \
                 ok = rabbit_auth_backend_internal:set_permissions(<<\"guest\">>, <<{name:?}/utf8>>, \
                 <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"guest\">>), <<\"ok\">>"
            ))?;
        } else {
            self.rabbitmqctl(["add_vhost", name])?;
            self.rabbitmqctl(["set_permissions", "-p", name, "guest", ".*", ".*", ".*"])?;
        }
        Ok(self.vhost_url(name))
    }

    /// Deletes a vhost with all its queues; connections to it are closed.
    ///
    /// # Errors
    ///
    /// As [`rabbitmqctl`](Self::rabbitmqctl).
    pub fn delete_vhost(&self, name: &str) -> Result<()> {
        if self.answers_for_itself() {
            let delete = format!("ok = rabbit_vhost:delete(<<{name:?}/utf8>>, <<\"guest\">>)");
            return self.evaluate(&format!("{delete}, <<\"ok\">>")).map(drop);
        }
        self.rabbitmqctl(["delete_vhost", name]).map(drop)
    }

    /// Closes every client's connection, as an operator would.
    ///
    /// # Errors
    ///
    /// As [`rabbitmqctl`](Self::rabbitmqctl).
    pub fn close_all_connections(&self) -> Result<()> {
        self.rabbitmqctl(["close_all_connections", "closed by a test"])
            .map(drop)
    }
}
