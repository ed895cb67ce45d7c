//! One program of an example as a process: listened to, killed or stopped.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// What the examples promise.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Killed by its guard when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    pid: i32,
    /// Ends as the program does.
    guard: Child,
    // Apart from the guard: waiting for that would close it.
    _hold: ChildStdin,
}

/// What it prints.
pub(crate) type Output = Lines<BufReader<ChildStdout>>;

#[derive(Deserialize)]
struct Started {
    pid: i32,
}

impl Program {
    /// Starts a [guarded](super::run::Run::guarded) program.
    pub(crate) async fn start(mut guarded: Command, name: &str) -> Result<(Self, Output)> {
        let mut guard = guarded
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let hold = guard.stdin.take().expect("it is piped");
        let mut output = BufReader::new(guard.stdout.take().expect("it is piped")).lines();
        let line = output.next_line().await?.unwrap_or_default();
        let Started { pid } = serde_json::from_str(&line)
            .with_context(|| format!("cannot start {name}: it said {line:?}"))?;
        let program = Self {
            name: name.to_owned(),
            pid,
            guard,
            _hold: hold,
        };
        Ok((program, output))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.guard.wait().await?;
        Ok(())
    }

    /// SIGTERM.
    pub(crate) fn ask_to_stop(&self) -> Result<()> {
        self.signal(Signal::SIGTERM)
    }

    /// Waits until the program has ended, and well.
    pub(crate) async fn until_ended(mut self) -> Result<()> {
        let Ok(status) = timeout(STOP_LIMIT, self.guard.wait()).await else {
            bail!("{} did not stop within {STOP_LIMIT:?}", self.name);
        };
        let status = status?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        signal::kill(Pid::from_raw(self.pid), signal)
            .with_context(|| format!("cannot send {signal} to {}", self.name))
    }
}
