//! Connections for atomic handlers, and what must be proven of one before it is lent again.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use sqlx::{
    AssertSqlSafe, PgPool, PgTransaction, SqlSafeStr as _, SqlStr, postgres::PgPoolOptions,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    atomic::begin_waiting,
    fault::{Fault, Remedy},
    group::Steps,
    session::Address,
};

/// When a connection that is still in use is replaced: what the server keeps for one only grows.
const LIFETIME: Duration = Duration::from_mins(30);

/// A fixed number of connections, lent first come, first served.
#[derive(Clone)]
pub(super) struct Lending {
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Slot>>>,
    connections: usize,
    address: Address,
    begin: SqlStr,
}

/// The right to one connection until it is dropped.
pub(super) struct Turn {
    lending: Lending,
    slot: Slot,
    _permit: OwnedSemaphorePermit,
}

/// Room for one connection: a pool of its own, so that what is known of the connection can be
/// told to the pool when it comes back.
#[derive(Clone)]
struct Slot {
    pool: PgPool,
    clean: Arc<AtomicBool>,
}

impl Lending {
    /// Connects when a connection is needed. `begin` is what begins a transaction.
    pub(super) fn new(address: Address, connections: u32, begin: String) -> Self {
        let connections = connections as usize;
        Self {
            turns: Arc::new(Semaphore::new(connections)),
            idle: Arc::default(),
            connections,
            address,
            begin: AssertSqlSafe(begin).into_sql_str(),
        }
    }

    /// How many there are at most.
    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Waits as long as it takes: handlers that take their time are no reason to call the store
    /// unavailable.
    pub(super) async fn turn(&self) -> Turn {
        let permit = Arc::clone(&self.turns).acquire_owned().await;
        // The one used last: those that are not needed are closed after a while.
        let slot = self.slots().pop();
        Turn {
            slot: slot.unwrap_or_else(|| Slot::new(&self.address)),
            lending: self.clone(),
            _permit: permit.expect("the semaphore is never closed"),
        }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Vec<Slot>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Begins a transaction.
    ///
    /// # Cancel safety
    /// A connection on which nobody knows what has begun is closed.
    pub(super) async fn begin(&mut self) -> Result<PgTransaction<'static>, Fault> {
        self.begin_with(self.lending.begin.clone()).await
    }

    /// Begins a transaction whose statements wait for a lock for at most so long.
    ///
    /// # Cancel safety
    /// As of [`begin`](Self::begin).
    pub(super) async fn begin_waiting(
        &mut self,
        wait: Duration,
    ) -> Result<PgTransaction<'static>, Fault> {
        self.begin_with(begin_waiting(&self.lending.begin, wait))
            .await
    }

    /// Begins a transaction that several messages share.
    ///
    /// # Cancel safety
    /// As of [`begin`](Self::begin).
    pub(super) async fn begin_group(
        &mut self,
        steps: &Steps,
    ) -> Result<PgTransaction<'static>, Fault> {
        self.begin_with(steps.begin(&self.lending.begin)).await
    }

    async fn begin_with(&mut self, text: SqlStr) -> Result<PgTransaction<'static>, Fault> {
        let begun = match self.try_begin(text.clone()).await {
            // One that has lain idle may be dead; this is how it is noticed.
            Err(fault @ Fault::Said(_)) if fault.remedy() == Remedy::Reconnect => {
                self.try_begin(text).await
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
        match self.lending.address.connect().await {
            Ok(_) => fault,
            Err(cause) => cause,
        }
    }

    async fn try_begin(&mut self, text: SqlStr) -> Result<PgTransaction<'static>, Fault> {
        // The pool's future has room for all that connecting takes.
        let begun = Box::pin(self.slot.pool.begin_with(text));
        let begun = self.lending.address.within_patience(begun).await;
        if begun.is_err() {
            self.change_connection();
        }
        // One that the driver closed by itself has not taken its mark along.
        self.slot.clean.store(false, Ordering::Release);
        begun
    }

    /// Has the next user connect anew, without waiting for this connection to be closed.
    pub(super) fn change_connection(&mut self) {
        self.slot = Slot::new(&self.lending.address);
    }

    /// Vouches for the connection: nothing of its last use is left on it but an empty
    /// transaction.
    pub(super) fn is_clean(&self) {
        self.slot.clean.store(true, Ordering::Release);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.lending.slots().push(self.slot.clone());
    }
}

impl Slot {
    fn new(address: &Address) -> Self {
        Self::lasting(address, LIFETIME)
    }

    fn lasting(address: &Address, lifetime: Duration) -> Self {
        let clean = Arc::new(AtomicBool::new(false));
        let known = Arc::clone(&clean);
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
            .connect_lazy_with(address.options.clone());
        Self { pool, clean }
    }
}

#[cfg(test)]
mod tests;
