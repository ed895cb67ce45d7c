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

/// Orders for a watchdog whose owner is a file.
const DETACHED: &str = r#"
{ echo start; while [ -e "$1" ]; do sleep 1; done; } | sh -c "$2" watchdog "$3" "$4"
"#;

/// What a watchdog runs: a launch script, with an environment, in a folder that goes with it.
#[derive(Debug)]
pub struct Launch {
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
        // The folder is the home of all processes: that is how `detached` knows them.
        command.env("HOME", &self.folder);
        command.env("LC_ALL", "C.UTF-8");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the server for good: it runs until the file `wanted` is gone.
    pub(crate) fn detach(&self, wanted: &Path) -> Result<ProcessGroup> {
        let mut shell = self
            .command("sh")
            .args(["-c", DETACHED, "sh"])
            .args([wanted.as_os_str(), SCRIPT.as_ref()])
            .args([&self.folder, &self.script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::io("start `sh`"))?;
        read_group(&mut BufReader::new(
            shell.stdout.take().expect("stdout is piped"),
        ))
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
        self.order("start")?;
        read_group(&mut self.answers)
    }

    /// Kills the server's whole group.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.order("end")?;
        read_line(&mut self.answers).map(drop)
    }

    fn order(&mut self, order: &str) -> Result<()> {
        let orders = self
            .orders
            .as_mut()
            .expect("orders are given until the drop");
        writeln!(orders, "{order}").map_err(Error::io("reach the server's watchdog"))
    }
}

fn read_group(answers: &mut impl BufRead) -> Result<ProcessGroup> {
    let answer = read_line(answers)?;
    let pid = answer.parse().map_err(|_| {
        let what = format!(
            "`sh` answered {answer:?} instead of the server's process id: `setsid` is needed"
        );
        Error::Missing(what)
    })?;
    Ok(ProcessGroup::led_by(pid))
}

fn read_line(answers: &mut impl BufRead) -> Result<String> {
    let mut answer = String::new();
    answers
        .read_line(&mut answer)
        .map_err(Error::io("hear the server's watchdog"))?;
    Ok(answer.trim().to_owned())
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.orders.take();
        let _ = self.shell.wait();
    }
}
