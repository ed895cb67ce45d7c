//! The workers' store, to which something can be done.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use idem_amqp::sqlx::{self, ConnectOptions as _};
use idem_servers::{Postgres, Redis, postgres, redis};

use super::{Fault, Place, Schedule, StoreKind};
use crate::{
    ledger::{Ledger, in_sqlite},
    postgres_pair::PostgresPair,
    servers::{crash, hang, off_thread},
    store_at::StoreAt,
};

#[derive(Debug)]
pub(super) enum Store {
    File(PathBuf),
    Postgres(Arc<Postgres>),
    /// One with a standby, which confirms every commit before it is answered.
    Pair(PostgresPair),
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
            Self::Pair(pair) => Some(pair.port()),
            Self::Redis(server) => Some(server.port()),
            Self::Shared { port } => Some(*port),
        }
    }

    /// Starts one of this run's own if something will be done to it, else takes the one that tests share; the
    /// ledger is empty.
    pub(super) async fn open(kind: StoreKind, schedule: &Schedule) -> (Self, Ledger) {
        let own = !schedule.at(Place::Store).is_empty();
        let (store, at) = match (kind, own) {
            (StoreKind::Sqlite, _) => {
                let ledger = Ledger::create().await;
                return (Self::File(ledger.path()), ledger);
            }
            (StoreKind::Postgres, true) if schedule.includes(Fault::FailOver) => {
                let pair = PostgresPair::start().await;
                pair.commit_on_both().await;
                let at = pair.store().await;
                (Self::Pair(pair), at)
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
            Self::Pair(pair) => crash(&pair.primary(), down).await,
            Self::Redis(server) => crash(server, down).await,
        }
    }

    /// It answers nobody for a while.
    pub(super) async fn hang(&self, lasting: Duration) {
        match self {
            Self::File(file) => lock(file, lasting).await,
            Self::Shared { .. } => unreachable!("nobody plans to freeze it"),
            Self::Postgres(server) => hang(server, lasting).await,
            Self::Pair(pair) => hang(&pair.primary(), lasting).await,
            Self::Redis(server) => hang(server, lasting).await,
        }
    }

    /// Its standby receives nothing for a while, so that no commit is answered, and takes its place then, without
    /// the transactions of that while, and with all that was answered before.
    pub(super) async fn fail_over(&self, unanswered: Duration) {
        let Self::Pair(pair) = self else {
            unreachable!("nobody plans a fail-over without a standby");
        };
        // What a primary shows after a crash may not have been confirmed: it does not wait for that again.
        pair.catch_up().await;
        pair.fall_behind().await;
        tokio::time::sleep(unanswered).await;
        pair.fail_over().await;
        pair.replace_standby().await;
        pair.commit_on_both().await;
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
