//! A PostgreSQL, its standby, and one address that leads to the one in charge.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_servers::Postgres;

use crate::{proxy::Proxy, servers::off_thread, store_at::StoreAt};

/// A primary, its standby, and one address that leads to the one in charge. Commits do not wait for the standby,
/// unless that is asked for.
#[derive(Debug)]
pub struct PostgresPair {
    servers: Mutex<Servers>,
    address: Proxy,
}

#[derive(Debug, Clone)]
struct Servers {
    primary: Arc<Postgres>,
    standby: Arc<Postgres>,
}

impl PostgresPair {
    /// Starts both, and waits until the standby receives.
    pub async fn start() -> Self {
        let primary = Arc::new(off_thread(Postgres::start).await);
        let standby = standby_of(&primary).await;
        Self {
            address: Proxy::open(primary.port()).await,
            servers: Mutex::new(Servers { primary, standby }),
        }
    }

    /// The port that leads to the one in charge.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// A database of its own, by way of that port.
    pub async fn store(&self) -> StoreAt {
        StoreAt::postgres_on(&self.primary()).await.by(self.port())
    }

    /// The one in charge.
    pub fn primary(&self) -> Arc<Postgres> {
        self.servers().primary
    }

    /// The one that would take its place.
    pub fn standby(&self) -> Arc<Postgres> {
        self.servers().standby
    }

    /// Waits until the standby has all that is written by now.
    pub async fn catch_up(&self) {
        let primary = self.primary();
        off_thread(move || primary.wait_until_received()).await;
    }

    /// From now on no commit is answered before the standby has it.
    pub async fn commit_on_both(&self) {
        let primary = self.primary();
        off_thread(move || primary.wait_for_standby_at_commit()).await;
    }

    /// The standby lacks what is written after this.
    pub async fn fall_behind(&self) {
        let standby = self.standby();
        off_thread(move || standby.stop_receiving()).await;
    }

    /// The primary is killed, and the standby takes its place with what it has received. All connections to the
    /// address end; new ones lead to the promoted server, which has no standby.
    pub async fn fail_over(&self) {
        let Servers { primary, standby } = self.servers();
        let promoted = Arc::clone(&standby);
        off_thread(move || {
            primary.kill()?;
            promoted.promote()
        })
        .await;
        self.address.turn_to(standby.port());
        self.address.cut();
        self.lock().primary = standby;
    }

    /// After a fail-over: a new standby, with all that the promoted server holds.
    pub async fn replace_standby(&self) {
        let standby = standby_of(&self.primary()).await;
        self.lock().standby = standby;
    }

    fn servers(&self) -> Servers {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn standby_of(primary: &Arc<Postgres>) -> Arc<Postgres> {
    let primary = Arc::clone(primary);
    let standby = off_thread(move || {
        let standby = Postgres::standby_of(&primary)?;
        standby.receive_from(&primary)?;
        Ok(standby)
    });
    Arc::new(standby.await)
}
