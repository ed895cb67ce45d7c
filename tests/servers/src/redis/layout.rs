//! The folder of one private Redis: its ports and its configuration.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

use crate::{Error, Installed, Result, ports::free_ports, watchdog::Launch};

const LAUNCH: &str = include_str!("launch.sh");

/// What a server is part of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Single,
    NodeOfACluster,
    Sentinel,
}

/// Everything one needs to know to start a server, or to talk to one that runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    /// Where the nodes of a cluster talk to each other.
    pub(crate) bus_port: u16,
    programs: PathBuf,
    #[serde(default)]
    pub(crate) is_sentinel: bool,
    /// What the settings say that clients have to know.
    #[serde(default)]
    pub(crate) password: Option<String>,
}

impl Layout {
    /// Picks free ports and writes the configuration into `folder`.
    pub(crate) fn create(
        folder: &Path,
        installed: &Installed,
        mode: Mode,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let [port, bus_port] = free_ports()?;
        let layout = Self {
            folder: folder.to_owned(),
            port,
            bus_port,
            programs: installed.folder().to_owned(),
            is_sentinel: matches!(mode, Mode::Sentinel),
            password: settings
                .iter()
                .rfind(|(name, _)| *name == "requirepass")
                .map(|(_, password)| (*password).to_owned()),
        };
        layout
            .write_files(mode, settings)
            .map_err(Error::io(format!("write to {}", folder.display())))?;
        Ok(layout)
    }

    /// Of a server that somebody else has started: nothing but its port is known.
    pub(crate) fn of_port(port: u16) -> Self {
        Self {
            folder: PathBuf::new(),
            port,
            bus_port: 0,
            programs: PathBuf::new(),
            is_sentinel: false,
            password: None,
        }
    }

    fn write_files(&self, mode: Mode, settings: &[(&str, &str)]) -> io::Result<()> {
        let write = |name: &str, content: &str| fs::write(self.folder.join(name), content);
        write("launch.sh", LAUNCH)?;
        write("redis.conf", &self.configuration(mode, settings))
    }

    /// The last of several lines for one setting counts.
    fn configuration(&self, mode: Mode, settings: &[(&str, &str)]) -> String {
        let port = self.port.to_string();
        let bus_port = self.bus_port.to_string();
        let folder = self.folder.display().to_string();
        let of_a_cluster = [("cluster-enabled", "yes"), ("cluster-port", &bus_port)];
        let with_data = [("save", ""), ("appendonly", "no")];
        let of_its_mode = match mode {
            Mode::Single => with_data.to_vec(),
            Mode::NodeOfACluster => [with_data, of_a_cluster].concat(),
            Mode::Sentinel => Vec::new(),
        };
        let ours = [
            ("bind", "127.0.0.1"),
            ("protected-mode", "yes"),
            ("port", &port),
            ("dir", &folder),
        ];
        let mut lines = String::new();
        for (name, value) in ours.iter().chain(&of_its_mode).chain(settings) {
            let _ = writeln!(lines, "{name} {}", words(value));
        }
        lines
    }

    /// `redis-cli`, which can do what no single command can.
    pub(crate) fn tool(&self) -> Command {
        self.launch().command(self.programs.join("redis-cli"))
    }

    pub(crate) fn launch(&self) -> Launch {
        Launch {
            folder: self.folder.clone(),
            script: self.folder.join("launch.sh"),
            environment: vec![
                ("IDEM_REDIS", self.programs.display().to_string()),
                (
                    "IDEM_REDIS_MODE",
                    String::from(if self.is_sentinel { "--sentinel" } else { "" }),
                ),
            ],
            foreign_variables: &["REDISCLI_"],
        }
    }
}

/// A value may be several words, as in `client-output-buffer-limit`; none has to be said.
fn words(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}
