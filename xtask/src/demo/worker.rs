//! One program of an example as a process: started, listened to, killed or stopped.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use idem_servers::{Error, ProcessGroup, Result};
use nix::sys::signal::Signal;
use serde::Deserialize;

/// What the example promises.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const KILL_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Worker {
    id: usize,
    name: String,
    pid: i32,
    shell: Child,
    // Closed to end the shell; until then it leaves the dead worker's process id in place.
    hold: Option<ChildStdin>,
}

#[derive(Deserialize)]
struct Started {
    pid: i32,
}

impl Worker {
    /// Starts a program under its guard, see `worker.sh`; what it prints is listened to in a thread.
    pub(crate) fn start(
        mut guarded: Command,
        name: &str,
        id: usize,
        listen: impl FnOnce(BufReader<ChildStdout>) + Send + 'static,
    ) -> Result<Self> {
        let mut shell = guarded
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(Error::io("start a worker"))?;
        let hold = shell.stdin.take();
        let mut output = BufReader::new(shell.stdout.take().expect("stdout is piped"));
        let pid = read_pid(&mut output)?;
        thread::spawn(move || listen(output));
        Ok(Self {
            id,
            name: name.to_owned(),
            pid,
            shell,
            hold,
        })
    }

    pub(crate) fn id(&self) -> usize {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// SIGKILL.
    pub(crate) fn kill(self) -> Result<()> {
        self.process().signal_leader(Signal::SIGKILL)?;
        if self.process().wait_until_leader_is_gone(KILL_LIMIT) {
            return Ok(());
        }
        Err(Error::Unmet(format!("{} survived SIGKILL", self.name)))
    }

    /// SIGTERM.
    pub(crate) fn ask_to_stop(&self) -> Result<()> {
        self.process().signal_leader(Signal::SIGTERM)
    }

    /// Waits until the worker has ended, and well.
    pub(crate) fn wait_until_stopped(mut self) -> Result<()> {
        if !self.process().wait_until_leader_is_gone(STOP_LIMIT) {
            return Err(Error::Unmet(format!(
                "{} did not stop within {STOP_LIMIT:?} of SIGTERM",
                self.name
            )));
        }
        self.hold.take();
        let status = self.shell.wait().map_err(Error::io("wait for a worker"))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Unmet(format!(
            "{} ended with {status} after SIGTERM",
            self.name
        )))
    }

    fn process(&self) -> ProcessGroup {
        ProcessGroup::led_by(self.pid)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.hold.take();
        let _ = self.shell.wait();
    }
}

fn read_pid(output: &mut impl BufRead) -> Result<i32> {
    let mut line = String::new();
    output
        .read_line(&mut line)
        .map_err(Error::io("hear a worker"))?;
    let started: Started = serde_json::from_str(&line)
        .map_err(|error| Error::io(format!("start a worker: it said {line:?}"))(error.into()))?;
    Ok(started.pid)
}
