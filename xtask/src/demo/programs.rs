//! The programs of the example, with the environment that lets them play together.

use std::{fs, path::PathBuf, process::Command};

use idem_servers::{Error, Result};
use tempfile::TempDir;

use crate::cargo::Workspace;

/// Short, so that what a killed worker held is free again soon.
pub(crate) const LEASE_MS: u64 = 3_000;
/// Long enough for a worker to be killed with work in its hands.
const WORK_MS: u64 = 10;
const LAST_LINES: usize = 20;

/// The order worker and the publisher on one broker, one queue and one store of this run.
#[derive(Debug)]
pub(crate) struct Programs {
    worker: PathBuf,
    publisher: PathBuf,
    amqp_url: String,
    store_url: String,
    run: String,
    folder: TempDir,
}

impl Programs {
    /// Without a store's URL the store is a SQLite file.
    pub(crate) fn new(
        workspace: &Workspace,
        amqp_url: String,
        store_url: Option<String>,
    ) -> Result<Self> {
        let suffix: String = std::iter::repeat_with(|| fastrand::char('a'..='z'))
            .take(6)
            .collect();
        let folder = tempfile::Builder::new()
            .prefix("idem-demo-")
            .tempdir()
            .map_err(Error::io("create a temporary folder"))?;
        let file = || format!("sqlite:{}", folder.path().join("orders.db").display());
        Ok(Self {
            worker: workspace.release_program("order-worker"),
            publisher: workspace.release_program("publish-orders"),
            amqp_url,
            store_url: store_url.unwrap_or_else(file),
            run: format!("demo-{suffix}"),
            folder,
        })
    }

    /// Names this run, and is the beginning of every order's name.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// A queue of this run alone: the broker may be one with other things on it.
    pub(crate) fn queue(&self) -> String {
        format!("orders.{}", self.run)
    }

    /// The orders that the publisher makes up.
    pub(crate) fn order_ids(&self, orders: u32) -> Vec<String> {
        (1..=orders)
            .map(|number| format!("{}-{number:06}", self.run))
            .collect()
    }

    pub(crate) fn publisher(&self) -> Command {
        self.with_environment(Command::new(&self.publisher))
    }

    pub(crate) fn ledger(&self) -> Command {
        let mut ledger = self.with_environment(Command::new(&self.worker));
        ledger.arg("ledger");
        ledger
    }

    /// A worker under a shell that kills it when we are gone; see `worker.sh`.
    pub(crate) fn guarded_worker(&self, name: &str) -> Result<Command> {
        let log = self.folder.path().join("workers.log");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(Error::io(format!("write {}", log.display())))?;
        let mut shell = self.with_environment(Command::new("sh"));
        shell
            .args(["-c", include_str!("worker.sh"), "worker"])
            .arg(&self.worker);
        shell.env("WORKER_NAME", name).stderr(log);
        Ok(shell)
    }

    fn with_environment(&self, mut command: Command) -> Command {
        command
            .env("AMQP_URL", &self.amqp_url)
            .env("STORE_URL", &self.store_url)
            .env("ORDERS_QUEUE", self.queue())
            .env("ORDERS_LOG", "json")
            .env("WORK_MS", WORK_MS.to_string())
            .env("LEASE_MS", LEASE_MS.to_string())
            .env_remove("PREFETCH");
        command
    }

    /// The end of what the workers wrote to their logs.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("workers.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        format!("--- the end of the workers' log ---\n{}", last.join("\n"))
    }
}
