//! The folder of one private broker: its ports, its configuration and the environment it runs in.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

use super::{
    Program, Version,
    cluster_membership::ClusterMembership,
    console, outside,
    tuning::{self, Tuning},
};
use crate::{Error, Result, ports::free_ports, watchdog::Launch};

/// Everything one needs to know to start a broker, or to talk to one that runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Layout {
    folder: PathBuf,
    program: Program,
    amqp_port: u16,
    distribution_port: u16,
    mapper_port: u16,
    alone: bool,
    tuning: Tuning,
}

impl Layout {
    /// Picks free ports and writes the configuration into `folder`.
    pub(crate) fn create(
        folder: &Path,
        program: &Program,
        membership: &ClusterMembership,
    ) -> Result<Self> {
        let [amqp_port, distribution_port, own_mapper_port] = free_ports()?;
        let mapper_port = match membership {
            ClusterMembership::Alone => own_mapper_port,
            ClusterMembership::Around { mapper_port, .. } => *mapper_port,
        };
        let layout = Self {
            folder: folder.to_owned(),
            program: program.clone(),
            amqp_port,
            distribution_port,
            mapper_port,
            alone: matches!(membership, ClusterMembership::Alone),
            tuning: Tuning::QuickBoot,
        };
        layout
            .write_files(membership)
            .map_err(Error::io(format!("write to {}", folder.display())))?;
        Ok(layout)
    }

    /// Of a broker that somebody else has started: without a folder.
    pub(super) fn of_port(amqp_port: u16, program: Program) -> Self {
        Self {
            folder: PathBuf::new(),
            program,
            amqp_port,
            distribution_port: 0,
            mapper_port: 0,
            alone: true,
            tuning: Tuning::QuickBoot,
        }
    }

    pub(crate) fn tuned(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    fn write_files(&self, membership: &ClusterMembership) -> std::io::Result<()> {
        let write = |name: &str, content: &str| fs::write(self.folder.join(name), content);
        self.program
            .write_launch(&self.folder, membership.launch_script())?;
        write("rabbitmq.conf", &self.configuration(membership))?;
        write("console.erl", console::SCRIPT)?;
        write("preload.erl", tuning::PRELOAD)?;
        // Empty ones of ours, so that the files below /etc/rabbitmq are not read.
        write("environment.conf", "")?;
        write("advanced.config", membership.advanced())?;
        write("enabled_plugins", "[].\n")?;
        write(".erlang.cookie", &membership.cookie())?;
        // Erlang refuses a cookie that others can read.
        fs::set_permissions(
            self.folder.join(".erlang.cookie"),
            fs::Permissions::from_mode(0o400),
        )
    }

    fn configuration(&self, membership: &ClusterMembership) -> String {
        format!(
            "listeners.tcp.1 = 127.0.0.1:{}\nlog.console = false\nlog.file.level = info\n{}",
            self.amqp_port,
            membership.configuration()
        )
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn version(&self) -> Version {
        self.program.version()
    }

    /// Whether it is one of ours, on this machine.
    pub(super) fn is_private(&self) -> bool {
        !self.folder.as_os_str().is_empty()
    }

    /// Whether it is in no cluster.
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    pub(crate) fn ctl(&self) -> Command {
        if !self.is_private() {
            return outside::ctl();
        }
        self.program.command(&self.launch(), "rabbitmqctl")
    }

    pub(crate) fn amqp_port(&self) -> u16 {
        self.amqp_port
    }

    pub(crate) fn name(&self) -> String {
        format!("idem-{}", self.amqp_port)
    }

    pub(crate) fn node(&self) -> String {
        format!("{}@localhost", self.name())
    }

    pub(crate) fn launch(&self) -> Launch {
        self.program.launch(&self.folder, self.environment())
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let server = self.program.script("rabbitmq-server");
        let mut environment = vec![
            ("IDEM_RABBITMQ_SERVER", server.display().to_string()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
            ("ERL_EPMD_PORT", self.mapper_port.to_string()),
            ("RABBITMQ_NODENAME", self.node()),
            ("RABBITMQ_NODE_PORT", self.amqp_port.to_string()),
            ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
            ("RABBITMQ_DIST_PORT", self.distribution_port.to_string()),
            ("RABBITMQ_CONF_ENV_FILE", path("environment.conf")),
            ("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf")),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", path("advanced.config")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", path("enabled_plugins")),
            ("RABBITMQ_MNESIA_BASE", path("data")),
            ("RABBITMQ_LOG_BASE", path("log")),
            ("RABBITMQ_PID_FILE", path("server.pid")),
            // Its commands are nodes, too, which listen; and have no use for several processors.
            (
                "RABBITMQ_CTL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1".to_owned(),
            ),
            // Any free port; the default range has room for eleven commands at a time, machine-wide.
            ("RABBITMQ_CTL_DIST_PORT_MIN", "0".to_owned()),
            ("RABBITMQ_CTL_DIST_PORT_MAX", "0".to_owned()),
        ];
        environment.extend(self.tuning.environment());
        environment
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log").join(format!("{}.log", self.node()))
    }
}
