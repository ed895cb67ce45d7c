//! The Erlang port mapper of a cluster, which outlives each of its nodes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::Program;
use crate::{Error, Result, Server, ports::free_ports, probe, watchdog::Launch};

const LAUNCH: &str = include_str!("launch_mapper.sh");
/// Two bytes of length, then the request for all names.
const NAMES: &[u8] = b"\x00\x01n";

/// A running port mapper: nodes tell it their ports, and ask it for those of the others.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct PortMapper {
    folder: PathBuf,
    port: u16,
    program: Program,
}

impl Server for PortMapper {
    const PRODUCT: &'static str = "epmd";
    const BOOT_LIMIT: Duration = Duration::from_secs(10);

    fn folder(&self) -> &Path {
        &self.folder
    }

    /// An answer begins with the mapper's own port in four bytes.
    fn is_ready(&self) -> bool {
        probe::answers(self.port, NAMES, u32::from(self.port).to_be_bytes())
    }

    fn launch(&self) -> Launch {
        let environment = vec![("IDEM_EPMD_PORT", self.port.to_string())];
        self.program.launch(&self.folder, environment)
    }
}

impl PortMapper {
    pub(super) fn lay_out(folder: &Path, program: &Program) -> Result<Self> {
        let [port] = free_ports()?;
        program
            .write_launch(folder, LAUNCH)
            .map_err(Error::io(format!("write to {}", folder.display())))?;
        Ok(Self {
            folder: folder.to_owned(),
            port,
            program: program.clone(),
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}
