//! The folder of one private PgBouncer: its port and its configuration.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Installed, Result, ports::free_ports, postgres::DatabaseServer, unprivileged,
    watchdog::Launch,
};

const LAUNCH: &str = include_str!("launch.sh");

/// Everything one needs to know to start a pooler, or to talk to one that runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    pub(crate) server: DatabaseServer,
    programs: PathBuf,
}

impl Layout {
    /// Picks a free port and writes the configuration into `folder`.
    pub(crate) fn create(
        folder: &Path,
        installed: &Installed,
        server: &DatabaseServer,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let [port] = free_ports()?;
        let layout = Self {
            folder: folder.to_owned(),
            port,
            server: server.clone(),
            programs: installed.folder().to_owned(),
        };
        layout
            .write_files(settings)
            .map_err(Error::io(format!("write to {}", folder.display())))?;
        unprivileged::give(folder)?;
        Ok(layout)
    }

    fn write_files(&self, settings: &[(&str, &str)]) -> io::Result<()> {
        let write = |name: &str, content: &str| fs::write(self.folder.join(name), content);
        write("launch.sh", LAUNCH)?;
        let configuration = configuration(self.port, self.server.port(), settings);
        write("pgbouncer.ini", &configuration)
    }

    pub(crate) fn launch(&self) -> Launch {
        Launch {
            folder: self.folder.clone(),
            script: self.folder.join("launch.sh"),
            environment: vec![("IDEM_PGBOUNCER", self.programs.display().to_string())],
            foreign_variables: &["PG"],
        }
    }
}

/// The last of several lines for one setting counts.
fn configuration(port: u16, server_port: u16, settings: &[(&str, &str)]) -> String {
    let port = port.to_string();
    let ours = [
        ("listen_addr", "127.0.0.1"),
        ("listen_port", &port),
        ("unix_socket_dir", ""),
        ("auth_type", "any"),
        ("pool_mode", "transaction"),
    ];
    let mut lines =
        format!("[databases]\n* = host=127.0.0.1 port={server_port} user=idem\n[pgbouncer]\n");
    for (name, value) in ours.iter().chain(settings) {
        let _ = writeln!(lines, "{name} = {value}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::configuration;

    #[test]
    fn a_callers_setting_comes_last() {
        let lines = configuration(20_000, 20_001, &[("pool_mode", "session")]);
        assert!(lines.contains("port=20001"), "{lines}");
        assert!(
            lines.ends_with("pool_mode = transaction\npool_mode = session\n"),
            "{lines}"
        );
    }
}
