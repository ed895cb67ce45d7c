//! The workers' store, to which something can be done.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use idem_amqp::sqlx::{self, ConnectOptions as _};
use xtask::{
    chaos::StoreKind,
    services::{Postgres, Redis, postgres, redis},
};

use crate::{
    ledger::{Ledger, in_sqlite},
    servers::{crash, hang, off_thread},
    store_at::StoreAt,
};

#[derive(Debug)]
pub(super) enum Store {
    File(PathBuf),
    Postgres(Arc<Postgres>),
    Redis(Arc<Redis>),
    /// One that tests share, to which nothing is done.
    Shared {
        port: u16,
    },
}

/// What an acknowledged write of Redis needs to survive a crash.
const DURABLE: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

impl Store {
    /// `None` without a server.
    pub(super) fn port(&self) -> Option<u16> {
        match self {
            Self::File(_) => None,
            Self::Postgres(server) => Some(server.port()),
            Self::Redis(server) => Some(server.port()),
            Self::Shared { port } => Some(*port),
        }
    }

    /// Starts one of this run's own, or takes the one that tests share; the ledger is empty.
    pub(super) async fn open(kind: StoreKind, own: bool) -> (Self, Ledger) {
        let (store, at) = match (kind, own) {
            (StoreKind::Sqlite, _) => {
                let ledger = Ledger::create().await;
                return (Self::File(ledger.path()), ledger);
            }
            (StoreKind::Postgres, true) => {
                let server = Arc::new(off_thread(Postgres::start).await);
                let at = StoreAt::postgres_on(&server).await;
                (Self::Postgres(server), at)
            }
            (StoreKind::Redis, true) => {
                let server = Arc::new(off_thread(|| Redis::start_with(&DURABLE)).await);
                let at = StoreAt::redis_on(&server);
                (Self::Redis(server), at)
            }
            (StoreKind::Postgres, false) => {
                let port = off_thread(postgres::shared).await.port();
                (Self::Shared { port }, StoreAt::postgres().await)
            }
            (StoreKind::Redis, false) => {
                let port = off_thread(redis::shared).await.port();
                (Self::Shared { port }, StoreAt::redis().await)
            }
        };
        (store, Ledger::of(&at).await)
    }

    /// It is killed, and started again after a while.
    pub(super) async fn crash(&self, down: Duration) {
        match self {
            Self::File(_) | Self::Shared { .. } => unreachable!("nobody plans to kill it"),
            Self::Postgres(server) => crash(server, down).await,
            Self::Redis(server) => crash(server, down).await,
        }
    }

    /// It answers nobody for a while.
    pub(super) async fn hang(&self, lasting: Duration) {
        match self {
            Self::File(file) => lock(file, lasting).await,
            Self::Shared { .. } => unreachable!("nobody plans to freeze it"),
            Self::Postgres(server) => hang(server, lasting).await,
            Self::Redis(server) => hang(server, lasting).await,
        }
    }
}

/// Keeps others from writing to the file for a while.
async fn lock(file: &Path, lasting: Duration) {
    let connection = in_sqlite::options(file).connect().await;
    let mut connection = connection.expect("a SQLite file");
    let begun = sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection);
    begun.await.expect("the lock comes within the timeout");
    tokio::time::sleep(lasting).await;
    let ended = sqlx::raw_sql("ROLLBACK").execute(&mut connection).await;
    ended.expect("the lock is let go");
}
