//! The shell that outlives us just long enough to take a server down with us.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use super::process_group::ProcessGroup;
use crate::{Error, Result};

const SCRIPT: &str = include_str!("watchdog.sh");

/// What a watchdog runs: a launch script, with an environment, in a folder that goes with it.
#[derive(Debug)]
pub(crate) struct Launch {
    /// Removed, with all in it, when the watchdog ends.
    pub(crate) folder: PathBuf,
    /// Run by `sh`; becomes the leader of the server's process group.
    pub(crate) script: PathBuf,
    /// The server's variables, on top of what `foreign_variables` leaves of ours.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Prefixes of inherited variables that would configure the server behind our back.
    pub(crate) foreign_variables: &'static [&'static str],
}

impl Launch {
    /// A command with the server's environment: for the server, and for the tools that talk to it.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for (name, _) in std::env::vars_os() {
            if self
                .foreign_variables
                .iter()
                .any(|prefix| name.to_string_lossy().starts_with(prefix))
            {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the server for good: it runs until the file `wanted` is gone.
    pub(crate) fn detach(&self, wanted: &Path) -> Result<()> {
        let pipeline = r#"{ echo start; while [ -e "$1" ]; do sleep 1; done; } | sh -c "$2" watchdog "$3" "$4""#;
        self.command("sh")
            .args(["-c", pipeline, "sh"])
            .args([
                wanted.as_os_str(),
                SCRIPT.as_ref(),
                self.folder.as_os_str(),
                self.script.as_os_str(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(drop)
            .map_err(Error::io("start `sh`"))
    }
}

/// Holds a server: drop it, or be killed, and the server is gone with its folder.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Watchdog {
    pub(crate) fn over(launch: &Launch) -> Result<Self> {
        // A group of its own: ctrl-c in a terminal must reach the owner only.
        let mut shell = launch
            .command("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .args([&launch.folder, &launch.script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::io("start `sh`"))?;
        let orders = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().expect("stdout is piped"));
        Ok(Self {
            shell,
            orders,
            answers,
        })
    }

    /// Starts the server; one that still runs is killed first.
    pub(crate) fn start(&mut self) -> Result<ProcessGroup> {
        let answer = self.ask("start")?;
        let pid = answer.parse().map_err(|_| {
            Error::Missing(format!(
                "the shell `sh` answered {answer:?} instead of a process id"
            ))
        })?;
        Ok(ProcessGroup::led_by(pid))
    }

    /// Kills the server's whole group.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.ask("end").map(drop)
    }

    fn ask(&mut self, order: &str) -> Result<String> {
        let orders = self
            .orders
            .as_mut()
            .expect("orders are given until the drop");
        writeln!(orders, "{order}").map_err(Error::io("reach the server's watchdog"))?;
        let mut answer = String::new();
        self.answers
            .read_line(&mut answer)
            .map_err(Error::io("hear the server's watchdog"))?;
        Ok(answer.trim().to_owned())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.orders.take();
        let _ = self.shell.wait();
    }
}
