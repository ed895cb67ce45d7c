//! Connections for atomic handlers: who gets one, and when it may be used again.
//!
//! `atomic` checks a connection out for each transaction. What must stay true: there are never more
//! connections than the builder was told; a connection is used again only if whoever had it vouched
//! for it (`is_clean`), else it is closed; those who wait get one in the order in which they came.

use std::{
    collections::VecDeque,
    iter,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, PgConnection, PgPool, PgTransaction, Row as _, SqlSafeStr as _, SqlStr,
    postgres::PgPoolOptions,
};
use tokio::{sync::oneshot, time::Instant};

use super::{
    fault::{Fault, Remedy},
    pooler::Sessions,
    session::Address,
    settings::{ONLY_READS, lock_timeout},
};
use crate::futures::FutureExt as _;

mod early_claims;

pub(super) use early_claims::ClaimPermit;
use early_claims::EarlyClaims;

/// For how long a connection is handed on before it is back with its pool once: the server counts what
/// was written for autovacuum, and a pooler has its connection back, when no transaction is open.
const HANDED_ON: Duration = Duration::from_secs(1);

/// When a connection that is still in use is replaced: what the server keeps for one only grows.
const LIFETIME: Duration = Duration::from_mins(30);

/// A fixed number of connections, first come, first served.
#[derive(Clone)]
pub(super) struct TransactionPool {
    state: Arc<Mutex<State>>,
    early_claims: EarlyClaims,
    connections: usize,
    address: Address,
    /// `BEGIN`, and what a transaction sets.
    begin: SqlStr,
    sessions: Sessions,
}

#[derive(Default)]
struct State {
    checked_out: usize,
    idle: Vec<Slot>,
    /// Nobody waits while a connection is free.
    waiting: VecDeque<oneshot::Sender<CheckedOut>>,
}

/// The right to one connection until it is dropped.
pub(super) struct CheckedOut {
    pool: TransactionPool,
    slot: Slot,
    /// When the connection was last taken from its pool.
    since: Instant,
    /// A transaction in which nothing has been done, from whoever had the connection before.
    begun: Option<PgTransaction<'static>>,
}

/// Room for one connection: a pool of its own, so that what is known of the connection can be
/// told to the pool when it comes back.
#[derive(Clone)]
struct Slot {
    pool: PgPool,
    clean: Arc<AtomicBool>,
    /// Whether its last connection was opened while the server's own default was that nothing is written.
    writes_nothing: Arc<AtomicBool>,
}

impl TransactionPool {
    /// Connects when a connection is needed. `begin` is what begins a transaction that writes.
    pub(super) fn new(
        address: Address,
        connections: u32,
        begin: String,
        sessions: Sessions,
    ) -> Self {
        let connections = connections as usize;
        Self {
            state: Arc::default(),
            early_claims: EarlyClaims::of(connections),
            connections,
            address,
            begin: AssertSqlSafe(begin).into_sql_str(),
            sessions,
        }
    }

    /// How many there are at most.
    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Waits as long as it takes: handlers that take their time are no reason to call the store
    /// unavailable.
    pub(super) async fn check_out(&self) -> CheckedOut {
        let checked_out = {
            let mut state = self.state();
            if state.checked_out < self.connections {
                state.checked_out += 1;
                // The one used last: those that are not needed are closed after a while.
                let slot = state.idle.pop();
                return CheckedOut {
                    pool: self.clone(),
                    slot: slot.unwrap_or_else(|| self.slot()),
                    since: Instant::now(),
                    begun: None,
                };
            }
            let (caller, checked_out) = oneshot::channel();
            state.waiting.push_back(caller);
            checked_out
        };
        checked_out.await.expect("whoever waits is called")
    }

    fn slot(&self) -> Slot {
        Slot::new(&self.address, self.sessions)
    }

    /// Whether all connections are checked out.
    pub(super) fn is_busy(&self) -> bool {
        self.state().checked_out >= self.connections
    }

    /// Waits until one more may claim before there is a connection for it.
    pub(super) async fn permit_to_claim(&self) -> ClaimPermit {
        self.early_claims.permit().await
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckedOut {
    /// Begins a transaction.
    ///
    /// # Cancel safety
    /// A connection on which nobody knows what has begun is closed.
    pub(super) async fn begin(&mut self) -> Result<PgTransaction<'static>, Fault> {
        self.begin_with("").await
    }

    /// Begins a transaction whose statements wait for a lock for at most so long.
    ///
    /// # Cancel safety
    /// As of [`begin`](Self::begin).
    pub(super) async fn begin_waiting(
        &mut self,
        wait: Duration,
    ) -> Result<PgTransaction<'static>, Fault> {
        self.begin_with(&lock_timeout(wait)).await
    }

    /// Begins a transaction that several messages share, with these statements behind the `BEGIN`.
    ///
    /// # Cancel safety
    /// As of [`begin`](Self::begin).
    pub(super) async fn begin_group(
        &mut self,
        begin: &str,
    ) -> Result<PgTransaction<'static>, Fault> {
        self.begin_with(begin).await
    }

    /// Begins a transaction with these statements.
    async fn begin_with(&mut self, statements: &str) -> Result<PgTransaction<'static>, Fault> {
        let begun = match self.begun.take() {
            Some(begun) => self.go_on(begun, statements).await,
            None => self.try_begin(statements).await,
        };
        let begun = match begun {
            // One that has lain idle may be dead; this is how it is noticed.
            Err(fault @ Fault::Said(_)) if fault.remedy() == Remedy::Reconnect => {
                self.try_begin(statements).await
            }
            begun => begun,
        };
        match begun {
            Err(fault) if fault.is_of_the_pool() => Err(self.cause_of(fault).await),
            begun => begun,
        }
    }

    /// The pool does not tell why it could not connect; one more try does.
    async fn cause_of(&self, fault: Fault) -> Fault {
        match self.pool.address.connect().await {
            Ok(_) => fault,
            Err(cause) => cause,
        }
    }

    async fn try_begin(&mut self, statements: &str) -> Result<PgTransaction<'static>, Fault> {
        self.since = Instant::now();
        let text = if statements.is_empty() {
            self.pool.begin.clone()
        } else {
            let text = format!("{}{statements}", self.pool.begin.as_str());
            AssertSqlSafe(text).into_sql_str()
        };
        // The pool's future has room for all that connecting takes.
        let begun = Box::pin(self.slot.pool.begin_with(text));
        let begun = self.pool.address.within_timeout(begun).await;
        let begun = match begun {
            // It would write all the same, against what the server is set to.
            Ok(_) if self.slot.writes_nothing.load(Ordering::Acquire) => Err(only_reads_itself()),
            begun => begun,
        };
        if begun.is_err() {
            self.change_connection();
        }
        // One that the driver closed by itself has not taken its mark along.
        self.slot.clean.store(false, Ordering::Release);
        begun
    }

    /// Goes on in a transaction that has begun already.
    async fn go_on(
        &mut self,
        mut begun: PgTransaction<'static>,
        statements: &str,
    ) -> Result<PgTransaction<'static>, Fault> {
        self.slot.clean.store(false, Ordering::Release);
        if statements.is_empty() {
            return Ok(begun);
        }
        let statements = AssertSqlSafe(statements.to_owned());
        let done = Box::pin(sqlx::raw_sql(statements).execute(&mut *begun));
        match self.pool.address.within_timeout(done).await {
            Ok(_) => Ok(begun),
            Err(fault) => {
                self.change_connection();
                Err(fault)
            }
        }
    }

    /// Has the next user connect anew, without waiting for this connection to be closed.
    pub(super) fn change_connection(&mut self) {
        self.slot = self.pool.slot();
    }

    /// Vouches for the connection: nothing of its last use is left on it but an empty
    /// transaction.
    pub(super) fn is_clean(&self) {
        self.slot.clean.store(true, Ordering::Release);
    }

    /// What begins the next one's transaction behind the end of this one, if somebody waits for it. The
    /// isolation level of this one would go on with `AND CHAIN`.
    pub(super) fn chained(&self) -> Option<String> {
        let is_wanted = self.since.elapsed() < HANDED_ON && !self.pool.state().waiting.is_empty();
        is_wanted.then(|| format!("; ROLLBACK; {}", self.pool.begin.as_str()))
    }

    /// Hands the connection on with a transaction in which nothing has been done but what is
    /// [chained](Self::chained).
    pub(super) fn hand_on(mut self, begun: PgTransaction<'static>) {
        self.is_clean();
        self.begun = Some(begun);
    }
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        let mut waiting = iter::from_fn(|| state.waiting.pop_front());
        let Some(next) = waiting.find(|caller| !caller.is_closed()) else {
            state.checked_out -= 1;
            state.idle.push(self.slot.clone());
            // Rolled back: the connection is on its way to its pool when it is checked out again. Last, because
            // the driver panics outside of a runtime.
            self.begun = None;
            return;
        };
        drop(state);
        // If it has gone meanwhile, this is dropped as well, and is the checked_out of the one behind it.
        drop(next.send(Self {
            pool: self.pool.clone(),
            slot: self.slot.clone(),
            since: self.since,
            begun: self.begun.take(),
        }));
    }
}

impl Slot {
    fn new(address: &Address, sessions: Sessions) -> Self {
        Self::lasting(address, LIFETIME, sessions)
    }

    fn lasting(address: &Address, lifetime: Duration, sessions: Sessions) -> Self {
        let clean = Arc::new(AtomicBool::new(false));
        let known = Arc::clone(&clean);
        let writes_nothing = Arc::new(AtomicBool::new(false));
        let learnt = Arc::clone(&writes_nothing);
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(lifetime)
            // Less, so that it is known to have been the pool.
            .acquire_timeout(address.response_timeout * 9 / 10)
            // To begin tests it, too.
            .test_before_acquire(false)
            .after_release(move |_, _| {
                let clean = known.swap(false, Ordering::AcqRel);
                async move { Ok(clean) }.boxed()
            })
            .after_connect(move |connection, _| {
                let learnt = Arc::clone(&learnt);
                async move {
                    if sessions == Sessions::Own {
                        learnt.store(only_reads(connection).await?, Ordering::Release);
                    }
                    Ok(())
                }
                .boxed()
            })
            .connect_lazy_with(address.options.clone());
        Self {
            pool,
            clean,
            writes_nothing,
        }
    }
}

fn only_reads_itself() -> Fault {
    let reason = "the server's sessions only read by default (`default_transaction_read_only`)";
    Fault::from(sqlx::Error::Protocol(reason.into()))
}

/// Lets a session only read by default, and tells whether it did so already.
async fn only_reads(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const DEFAULT: &str = "SELECT current_setting('default_transaction_read_only')::boolean";
    let statements = AssertSqlSafe(format!("{DEFAULT}; {ONLY_READS}"));
    let default = sqlx::raw_sql(statements).fetch_one(connection).await?;
    default.try_get(0)
}

#[cfg(test)]
mod tests;
