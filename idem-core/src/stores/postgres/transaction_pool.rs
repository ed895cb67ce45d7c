//! Connections for atomic handlers: who gets one, and when it may be used again.
//!
//! `atomic` checks a connection out for each transaction. What must stay true:
//!
//! - There are never more connections than the builder was told.
//! - A connection is used again only if whoever had it vouched for it (`mark_clean`), else it is closed.
//! - Those who wait get one in the order in which they came.
//! - Whoever is given a connection and has gone passes it on.

use std::{
    collections::VecDeque,
    iter,
    pin::pin,
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
    link::Address,
    pooler::ServerProcess,
    settings::{ONLY_READS, lock_timeout},
};
use crate::{
    futures::FutureExt as _,
    stores::early_claims::{ClaimPermit, EarlyClaims},
};

/// How long a connection is handed on from one handler to the next before it goes back to its pool once. Only when no
/// transaction is open does the server count what was written, on which autovacuum depends, and does a pooler have
/// its connection back.
const HANDED_ON: Duration = Duration::from_secs(1);

/// When a connection that is still in use is replaced: what the server keeps for one only grows.
const LIFETIME: Duration = Duration::from_mins(30);

/// A fixed number of connections, first come, first served. Clones are the same pool.
#[derive(Clone)]
pub(super) struct TransactionPool {
    state: Arc<Mutex<State>>,
    /// Who may claim before there is a connection.
    early_claims: EarlyClaims,
    /// How many there are at most.
    connections: usize,
    /// Where to connect to, and how long to wait for an answer.
    address: Address,
    /// `BEGIN`, and the settings of a transaction. The text never differs, so that statistics of
    /// the server show it as one statement.
    begin: SqlStr,
    /// Whether each connection has a session of its own, or a pooler lends it one for each
    /// transaction.
    process: ServerProcess,
}

/// Who has a connection, and who waits. Changed under one lock, so that no connection is given
/// twice.
#[derive(Default)]
struct State {
    /// How many are checked out now, `connections` at most.
    checked_out: usize,
    /// Connections that were used and are not checked out; the one used last at the end.
    idle: Vec<Slot>,
    /// Those who wait, in the order in which they came. Nobody waits while a connection is free.
    waiting: VecDeque<oneshot::Sender<CheckedOut>>,
}

/// The right to one connection. When it is dropped, the right goes to whoever has waited longest,
/// or back to the pool.
pub(super) struct CheckedOut {
    pool: TransactionPool,
    /// Room for the connection, which is opened when a transaction begins.
    slot: Slot,
    /// When the connection was last taken from its pool.
    since: Instant,
    /// A transaction in which nothing has been done: the last handler's commit has begun it.
    begun: Option<PgTransaction<'static>>,
}

/// Room for one connection. It is a driver's pool of its own, because the driver tells its pool
/// nothing about the connection that comes back; this way each has a flag beside it.
#[derive(Clone)]
struct Slot {
    pool: PgPool,
    /// Whether somebody has vouched for the connection since it was last taken. Read once, when it
    /// comes back.
    clean: Arc<AtomicBool>,
    /// Whether the server's own default was that nothing is written when the last connection was
    /// opened.
    writes_nothing: Arc<AtomicBool>,
}

impl TransactionPool {
    /// Opens no connection before one is needed. `begin` is what begins a transaction that writes.
    pub(super) fn new(
        address: Address,
        connections: u32,
        begin: String,
        process: ServerProcess,
    ) -> Self {
        let connections = connections as usize;
        Self {
            state: Arc::default(),
            early_claims: EarlyClaims::of(connections),
            connections,
            address,
            begin: AssertSqlSafe(begin).into_sql_str(),
            process,
        }
    }

    /// How many there are at most.
    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Waits for a connection, as long as it takes: handlers that take their time are no reason to
    /// call the store unavailable.
    ///
    /// # Cancel safety
    /// Whoever is dropped while waiting is passed over. One who has been given the connection and
    /// is dropped before it looks passes it on.
    pub(super) async fn check_out(&self) -> CheckedOut {
        let checked_out = {
            let mut state = self.state();
            if state.checked_out < self.connections {
                state.checked_out += 1;
                // The one used last, so that those that are not needed stay unused, and the driver
                // closes them after a while.
                let slot = state.idle.pop();
                return CheckedOut {
                    pool: self.clone(),
                    slot: slot.unwrap_or_else(|| self.slot()),
                    since: Instant::now(),
                    begun: None,
                };
            }
            // Under the lock under which the count was read: a connection that comes back right now
            // sees the caller, so it is not forgotten.
            let (caller, checked_out) = oneshot::channel();
            state.waiting.push_back(caller);
            checked_out
        };
        checked_out.await.expect("whoever waits is called")
    }

    /// Room for a new connection.
    fn slot(&self) -> Slot {
        Slot::new(&self.address, self.process)
    }

    /// Whether all connections are checked out. Then a message claims early, and waits for a
    /// connection afterwards.
    pub(super) fn is_busy(&self) -> bool {
        self.state().checked_out >= self.connections
    }

    /// Waits until one more message may claim before there is a connection for it.
    pub(super) async fn permit_to_claim(&self) -> ClaimPermit {
        self.early_claims.permit().await
    }

    /// Also after a panic elsewhere: what is written under the lock is never half done.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckedOut {
    /// Begins a transaction.
    ///
    /// # Cancel safety
    /// A connection on which nobody knows what has begun is closed: nobody has vouched for it.
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

    /// Begins a transaction with these statements behind the `BEGIN`, on the one that was handed on
    /// if there is one.
    async fn begin_with(&mut self, statements: &str) -> Result<PgTransaction<'static>, Fault> {
        let begun = match self.begun.take() {
            Some(begun) => self.go_on(begun, statements).await,
            None => self.try_begin(statements).await,
        };
        let begun = match begun {
            // A connection that has lain idle may be dead, and this is how that is noticed. Nothing
            // of the handler has run, so it is safe to begin again, once. A server that does not
            // answer at all was waited for long enough.
            Err(fault @ Fault::Said(_)) if fault.remedy() == Remedy::Reconnect => {
                self.try_begin(statements).await
            }
            begun => begun,
        };
        match begun {
            // That the pool gave up helps nobody. The cause is a refused password, say.
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

    /// Begins a transaction on the connection of the slot, or on a new one. After an error the slot
    /// is a new one.
    async fn try_begin(&mut self, statements: &str) -> Result<PgTransaction<'static>, Fault> {
        self.since = Instant::now();
        let text = if statements.is_empty() {
            self.pool.begin.clone()
        } else {
            let text = format!("{}{statements}", self.pool.begin.as_str());
            AssertSqlSafe(text).into_sql_str()
        };
        let begun = {
            // Boxed: the pool's future has room for all that connecting takes, and each message
            // that waits would carry it along.
            let begun = Box::pin(self.slot.pool.begin_with(text));
            let mut begun = pin!(self.pool.address.within_timeout(begun));
            // Behind the future, so that it is dropped before it if this call is: then nobody knows
            // what has begun on the connection that the future has.
            let _unclean = Unclean(&self.slot.clean);
            begun.as_mut().await
        };
        let begun = match begun {
            // `BEGIN READ WRITE` would write all the same, against what an operator has set the
            // server to.
            Ok(_) if self.slot.writes_nothing.load(Ordering::Acquire) => Err(only_reads_itself()),
            begun => begun,
        };
        if begun.is_err() {
            self.change_connection();
        }
        begun
    }

    /// Goes on in a transaction that has begun already. An error closes its connection.
    async fn go_on(
        &mut self,
        mut begun: PgTransaction<'static>,
        statements: &str,
    ) -> Result<PgTransaction<'static>, Fault> {
        self.slot.clean.store(false, Ordering::Release);
        // No round trip: this is why a connection is handed on at all.
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

    /// Has the next user connect anew, without waiting for this connection to be closed. Nobody
    /// vouches for that one, so the driver does not lend it again.
    pub(super) fn change_connection(&mut self) {
        self.slot = self.pool.slot();
    }

    /// Vouches for the connection: nothing of its last use is left on it but an empty transaction.
    /// To be called only when the answer to the clean-up was seen. Otherwise settings, locks or an
    /// open transaction of one handler would reach the next.
    pub(super) fn mark_clean(&self) {
        self.slot.clean.store(true, Ordering::Release);
    }

    /// What begins the next handler's transaction in the same message as the end of this one, if
    /// somebody waits for the connection.
    ///
    /// It rolls back and begins anew, because `AND CHAIN` would keep the isolation level that this
    /// handler has chosen.
    pub(super) fn next_begin(&self) -> Option<String> {
        let is_wanted = self.since.elapsed() < HANDED_ON && !self.pool.state().waiting.is_empty();
        is_wanted.then(|| format!("; ROLLBACK; {}", self.pool.begin.as_str()))
    }

    /// Hands the connection on with a transaction in which nothing has been done: the one that
    /// [`next_begin`](Self::next_begin) has begun. Vouches for it, as
    /// [`mark_clean`](Self::mark_clean) does.
    pub(super) fn hand_on(mut self, begun: PgTransaction<'static>) {
        self.mark_clean();
        self.begun = Some(begun);
    }
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        // Those who have gone are passed over and removed.
        let mut waiting = iter::from_fn(|| state.waiting.pop_front());
        let Some(next) = waiting.find(|caller| !caller.is_closed()) else {
            state.checked_out -= 1;
            state.idle.push(self.slot.clone());
            // Nobody is there to use the transaction, so it is rolled back: the server counts what
            // was written, for autovacuum, only when none is open. That is under way before the
            // slot can be checked out again, because the lock is still held. Last, because the
            // driver panics outside of a runtime, and by now nothing else is left to do.
            self.begun = None;
            return;
        };
        // Sending may drop the new `CheckedOut`, which takes the lock again.
        drop(state);
        // If the caller has gone meanwhile, the new one is dropped here, and passes the connection
        // on to the next who waits. The count stays as it is: the connection is never free in
        // between.
        drop(next.send(Self {
            pool: self.pool.clone(),
            slot: self.slot.clone(),
            since: self.since,
            begun: self.begun.take(),
        }));
    }
}

/// Takes back, when it is dropped, that somebody vouched for a connection after its last use.
///
/// Not before the next use begins: the connection may still be on its way back, to be asked whether it is clean.
/// The driver closes one past its lifetime without asking, so the flag may be set for one that was never used.
struct Unclean<'a>(&'a AtomicBool);

impl Drop for Unclean<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Slot {
    /// A slot whose connection lasts for `LIFETIME`.
    fn new(address: &Address, process: ServerProcess) -> Self {
        Self::lasting(address, LIFETIME, process)
    }

    /// Opens no connection yet. Tests choose the lifetime.
    fn lasting(address: &Address, lifetime: Duration, process: ServerProcess) -> Self {
        let clean = Arc::new(AtomicBool::new(false));
        let known = Arc::clone(&clean);
        let writes_nothing = Arc::new(AtomicBool::new(false));
        let learnt = Arc::clone(&writes_nothing);
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(lifetime)
            // Less than the response time-out, so that it is known to have been the pool that gave
            // up.
            .acquire_timeout(address.response_timeout * 9 / 10)
            // `BEGIN` tests the connection as well, and a round trip for each message is saved.
            .test_before_acquire(false)
            // `false` closes the connection. So one whose user was cancelled, or has failed, is
            // never used again. The flag is taken, so that it counts for one use.
            .after_release(move |_, _| {
                let clean = known.swap(false, Ordering::AcqRel);
                async move { Ok(clean) }.boxed()
            })
            .after_connect(move |connection, _| {
                let learnt = Arc::clone(&learnt);
                async move {
                    // Behind a pooler the setting would reach whoever gets the server's session
                    // next.
                    if process == ServerProcess::Own {
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

/// The error of a connection to a server that is set to read only.
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
