//! How the processes of a RabbitMQ are started: as any of ours, or by way of its root.

use std::{fs, io, path::Path, process::Command};

use super::Program;
use crate::watchdog::Launch;

const LAUNCH: &str = "launch.sh";
const ENTER: &str = "enter.sh";

impl Program {
    /// Puts `script` into a server's folder, for [`launch`](Self::launch) to run.
    pub(super) fn write_launch(&self, folder: &Path, script: &str) -> io::Result<()> {
        fs::write(folder.join(LAUNCH), script)?;
        match self.root() {
            Some(_) => fs::write(folder.join(ENTER), include_str!("enter.sh")),
            None => Ok(()),
        }
    }

    pub(super) fn launch(
        &self,
        folder: &Path,
        mut environment: Vec<(&'static str, String)>,
    ) -> Launch {
        let script = match self.root() {
            Some(root) => {
                environment.push(("IDEM_ROOT", root.to_string()));
                ENTER
            }
            None => LAUNCH,
        };
        Launch {
            folder: folder.to_owned(),
            script: folder.join(script),
            environment,
            foreign_variables: &["RABBITMQ_", "ERL_"],
        }
    }

    /// One of the scripts, to be run beside what `launch` starts.
    pub(super) fn command(&self, launch: &Launch, script: &str) -> Command {
        let script = self.script(script);
        if self.root().is_none() {
            return launch.command(script);
        }
        let mut command = launch.command("sh");
        command.arg(&launch.script).arg(script);
        command
    }
}
