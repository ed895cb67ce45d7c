//! Runs the command.

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
};

use idem_amqp::{
    AnyStore, Key, Policy, Store as _,
    handler::Outcome,
    store::{Claim, ClaimRequest, Lease, Write},
};
use idem_tests::store_at::{Product, StoreAt};
use serde_json::Value;

/// The command, with options that say where everything is.
pub(crate) struct Idem(Vec<String>);

/// What it did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Idem {
    pub(crate) fn on(store: &StoreAt) -> Self {
        let mut options = vec!["--store".to_owned(), store.url.clone()];
        if store.product() == Product::Redis {
            options.extend(["--prefix".to_owned(), store.prefix.clone()]);
        }
        Self(options)
    }

    pub(crate) fn at(amqp: &str) -> Self {
        Self(vec!["--amqp".to_owned(), amqp.to_owned()])
    }

    pub(crate) fn and_at(mut self, amqp: &str) -> Self {
        self.0.extend(Self::at(amqp).0);
        self
    }

    /// Behind a cache that workers share.
    pub(crate) fn behind(mut self, cache: &StoreAt) -> Self {
        let words = ["--cache", &cache.url, "--cache-name", &cache.prefix];
        self.0.extend(words.map(str::to_owned));
        self
    }

    pub(crate) fn bare() -> Self {
        Self(Vec::new())
    }

    /// Without a terminal, as from a script.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(arguments);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        Ran {
            status: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The same when whoever read what it prints has gone; the status.
    pub(crate) async fn run_unread(&self, arguments: &[&str]) -> i32 {
        let mut command = self.command(arguments);
        let nobody = || io::pipe().unwrap().1;
        command.stdout(nobody()).stderr(nobody());
        let status = tokio::task::spawn_blocking(move || command.status());
        status.await.unwrap().unwrap().code().unwrap()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_idem"));
        command.args(&self.0).args(arguments).stdin(Stdio::null());
        for variable in [
            "IDEM_STORE_URL",
            "IDEM_CACHE_URL",
            "IDEM_CACHE_NAME",
            "AMQP_URL",
            "RUST_LOG",
        ] {
            command.env_remove(variable);
        }
        command
    }
}

impl Ran {
    /// What it printed, if it ended so.
    #[track_caller]
    pub(crate) fn ends(&self, status: i32) -> &str {
        assert_eq!(self.status, status, "{self:?}");
        &self.out
    }

    /// What it printed, one object on each line.
    #[track_caller]
    pub(crate) fn objects(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// A store of each kind, for a test of its own, and the command on it.
pub(crate) async fn each_store(folder: &Path) -> Vec<(AnyStore, Idem)> {
    let sqlite = StoreAt::sqlite(&folder.join("idem.db"));
    let (postgres, redis) = (StoreAt::postgres().await, StoreAt::redis().await);
    vec![
        (sqlite.open_sqlite().await.into(), Idem::on(&sqlite)),
        (postgres.open_postgres().await.into(), Idem::on(&postgres)),
        (redis.open_redis().await.into(), Idem::on(&redis)),
    ]
}

pub(crate) fn key(part: &str) -> Key {
    Key::new("orders.charge", part).unwrap()
}

pub(crate) async fn ask(store: &AnyStore, part: &str) -> Claim {
    let request = ClaimRequest::new(key(part), &Policy::DEFAULT);
    store.claim(&request).await.unwrap()
}

pub(crate) async fn acquire(store: &AnyStore, part: &str) -> Lease {
    match ask(store, part).await {
        Claim::Acquired(lease) => lease,
        other => panic!("{store:?}: {other:?}"),
    }
}

pub(crate) async fn complete(store: &AnyStore, lease: &Lease) -> Write {
    let retention = Policy::DEFAULT.retention();
    let outcome = Outcome::new("17");
    let written = store.complete(lease, &outcome, retention).await;
    written.unwrap()
}
