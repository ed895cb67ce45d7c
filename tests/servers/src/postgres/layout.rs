//! The folder of one private PostgreSQL: its port and its configuration.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Installed, Result, client::PSQL, ports::free_ports, unprivileged, watchdog::Launch,
};

const LAUNCH: &str = include_str!("launch.sh");
const LEFTOVERS: &str = include_str!("leftovers.sh");

/// Everything one needs to know to start a server, or to talk to one that runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    programs: PathBuf,
    /// Where a standby gets its data; a primary makes its own.
    primary: Option<String>,
    /// Its small disk, if it has one.
    #[serde(default)]
    disk: Option<Disk>,
}

/// A small disk that a server has for itself.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Disk {
    pub(crate) bytes: u64,
    /// Whether the log of transactions is on it, and not what tests put there.
    pub(crate) holds_the_log: bool,
}

impl Layout {
    /// Picks a free port and writes the configuration into `folder`.
    pub(crate) fn create(
        folder: &Path,
        installed: &Installed,
        settings: &[(&str, &str)],
        primary: Option<String>,
    ) -> Result<Self> {
        let [port] = free_ports()?;
        let layout = Self {
            folder: folder.to_owned(),
            port,
            programs: installed.folder().to_owned(),
            primary,
            disk: None,
        };
        layout
            .write_files(settings)
            .map_err(Error::io(format!("write to {}", folder.display())))?;
        unprivileged::give(folder)?;
        Ok(layout)
    }

    /// Of a server that somebody else has started: nothing but its port is known.
    pub(crate) fn of_port(port: u16) -> Self {
        Self {
            folder: PathBuf::new(),
            port,
            programs: PathBuf::new(),
            primary: None,
            disk: None,
        }
    }

    /// The same, with a small disk.
    pub(crate) fn with_disk(self, disk: Disk) -> Self {
        Self {
            disk: Some(disk),
            ..self
        }
    }

    pub(crate) fn disk(&self) -> Option<Disk> {
        self.disk
    }

    /// Where the server, and nobody else, has its small disk.
    pub(crate) fn place_of_disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// The file that tells a server that has ended, because its log found no room, that there is room again.
    pub(crate) fn room(&self) -> PathBuf {
        self.folder.join("room")
    }

    fn write_files(&self, settings: &[(&str, &str)]) -> io::Result<()> {
        let write = |name: &str, content: &str| fs::write(self.folder.join(name), content);
        write("launch.sh", LAUNCH)?;
        write("leftovers.sh", LEFTOVERS)?;
        write("postgresql.conf", &configuration(self.port, settings))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The client, led to a database. It is the server's own, or that of whoever has started the server.
    pub(crate) fn psql(&self, user: &str, database: &str) -> Command {
        let port = self.port.to_string();
        let from_here = ["--host", "127.0.0.1", "--port", &port];
        let mut psql = if self.folder.as_os_str().is_empty() {
            PSQL.command(Some(&from_here))
        } else {
            let mut own = self.launch().command(self.programs.join("psql"));
            own.args(from_here);
            own
        };
        psql.args(["--username", user, "--dbname", database]);
        psql
    }

    pub(crate) fn launch(&self) -> Launch {
        let mut environment = vec![("IDEM_POSTGRES", self.programs.display().to_string())];
        let primary = self.primary.clone();
        environment.extend(primary.map(|primary| ("IDEM_POSTGRES_PRIMARY", primary)));
        if let Some(disk) = self.disk {
            environment.push(("IDEM_POSTGRES_DISK", disk.bytes.to_string()));
            let log = if disk.holds_the_log { "yes" } else { "" };
            environment.push(("IDEM_POSTGRES_LOG_ON_DISK", log.to_owned()));
        }
        Launch {
            folder: self.folder.clone(),
            script: self.folder.join("launch.sh"),
            environment,
            foreign_variables: &["PG"],
        }
    }
}

/// The last of several lines for one setting counts.
fn configuration(port: u16, settings: &[(&str, &str)]) -> String {
    let port = port.to_string();
    let ours = [
        ("listen_addresses", "127.0.0.1"),
        ("port", &port),
        // A path in our folder could be longer than the 107 bytes that a socket's may have.
        ("unix_socket_directories", ""),
        // What a killed server has written is with the operating system, which lives on: only a
        // crash of the machine would lose it.
        ("fsync", "off"),
        ("max_connections", "1000"),
        ("shared_buffers", "16MB"),
        // Files below our folder: segments in /dev/shm would outlive a killed server.
        ("dynamic_shared_memory_type", "mmap"),
    ];
    let mut lines = String::new();
    for (name, value) in ours.iter().chain(settings) {
        let _ = writeln!(lines, "{name} = '{}'", value.replace('\'', "''"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::configuration;

    #[test]
    fn a_callers_setting_comes_last_and_may_hold_quotes() {
        let lines = configuration(20_000, &[("fsync", "on"), ("cluster_name", "it's")]);
        assert!(lines.contains("port = '20000'\n"), "{lines}");
        assert!(
            lines.ends_with("fsync = 'on'\ncluster_name = 'it''s'\n"),
            "{lines}"
        );
    }
}
