//! The programs of the example, with the environment that lets them play together.

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;

use super::report::Ledger;
use idem_servers::{Error, Result};

use crate::cargo::Workspace;

/// Short, because many replies never come.
const TIMEOUT_MS: u64 = 300;
const LAST_LINES: usize = 20;

/// The server and the client on one broker, one queue and one store of this run.
#[derive(Debug)]
pub(super) struct Programs {
    server: PathBuf,
    client: PathBuf,
    amqp_url: String,
    through_the_thief: String,
    store_url: String,
    run: String,
    folder: TempDir,
}

impl Programs {
    /// Without a store's URL the store is a SQLite file.
    pub(super) fn new(
        workspace: &Workspace,
        amqp_url: String,
        through_the_thief: String,
        store_url: Option<String>,
    ) -> Result<Self> {
        let suffix: String = std::iter::repeat_with(|| fastrand::char('a'..='z'))
            .take(6)
            .collect();
        let folder = tempfile::Builder::new()
            .prefix("idem-leases-")
            .tempdir()
            .map_err(Error::io("create a temporary folder"))?;
        let file = || format!("sqlite:{}", folder.path().join("leases.db").display());
        Ok(Self {
            server: workspace.release_program("lease-server"),
            client: workspace.release_program("lease-client"),
            amqp_url,
            through_the_thief,
            store_url: store_url.unwrap_or_else(file),
            run: format!("demo-{suffix}"),
            folder,
        })
    }

    /// The leases that the client asks for.
    pub(super) fn names(&self, requests: u32) -> Vec<String> {
        (1..=requests)
            .map(|number| format!("{}-{number:06}", self.run))
            .collect()
    }

    pub(super) fn guarded_server(&self) -> Result<Command> {
        let mut shell = self.guarded(&self.server)?;
        shell.env("AMQP_URL", &self.amqp_url);
        Ok(shell)
    }

    pub(super) fn guarded_client(&self, requests: u32) -> Result<Command> {
        let mut shell = self.guarded(&self.client)?;
        shell
            .arg("--json")
            .args(["--requests", &requests.to_string()])
            .args(["--run", &self.run, "--holder", &self.run])
            .args(["--timeout", &TIMEOUT_MS.to_string()])
            .arg("--session")
            .arg(self.folder.path().join("client.session"))
            .env("AMQP_URL", &self.through_the_thief);
        Ok(shell)
    }

    /// The leases of this run: a server that outlives it may hold those of others.
    pub(super) fn ledger(&self) -> Result<Ledger> {
        let mut ledger = self.with_environment(Command::new(&self.server));
        let output = ledger.arg("ledger").output();
        let output = output.map_err(Error::io("start lease-server"))?;
        if !output.status.success() {
            return Err(Error::command("lease-server ledger", &output));
        }
        Ledger::parse(&String::from_utf8_lossy(&output.stdout), &self.run)
            .map_err(|error| Error::io("understand `lease-server ledger`")(error.into()))
    }

    /// A program under a shell that kills it when we are gone; see `worker.sh`.
    fn guarded(&self, program: &PathBuf) -> Result<Command> {
        let log = self.log();
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(Error::io(format!("write {}", log.display())))?;
        let mut shell = self.with_environment(Command::new("sh"));
        shell
            .args(["-c", include_str!("../worker.sh"), "worker"])
            .arg(program)
            .stderr(log);
        Ok(shell)
    }

    fn with_environment(&self, mut command: Command) -> Command {
        command
            .env("STORE_URL", &self.store_url)
            .env("LEASES_QUEUE", format!("leases.{}", self.run));
        command
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("programs.log")
    }

    /// The end of what the programs wrote to their logs.
    pub(super) fn last_words(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        format!("--- the end of the programs' log ---\n{}", last.join("\n"))
    }
}
