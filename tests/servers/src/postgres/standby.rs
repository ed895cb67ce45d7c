//! A PostgreSQL that receives what another one writes, and that can take its place.

use super::{
    DatabaseServer, Postgres,
    database_server::{LIMIT, SUPERUSER},
    installed,
};
use crate::{Private, Result};

/// A standby that has lost its primary asks for it again after so long, instead of 5 s.
const SETTINGS: [(&str, &str); 1] = [("wal_retrieve_retry_interval", "100ms")];

impl Private<DatabaseServer> {
    /// Starts a standby with all that `primary` holds, and waits until it answers. It goes on receiving what is
    /// written there, and nobody's commit waits for it: see [`DatabaseServer::wait_for_standby_at_commit`].
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); or the primary does not answer.
    pub fn standby_of(primary: &DatabaseServer) -> Result<Postgres> {
        let installed = installed()?;
        let primary = address(primary);
        Self::create(|folder| {
            DatabaseServer::lay_out_standby(folder, &installed, &SETTINGS, primary.clone())
        })
    }
}

/// Of a primary.
impl DatabaseServer {
    /// Waits until a standby has received all that is written by now.
    ///
    /// # Errors
    ///
    /// No standby has it within a minute.
    pub fn wait_until_received(&self) -> Result<()> {
        let written = self.ask("SELECT pg_current_wal_insert_lsn()")?;
        let received =
            format!("SELECT count(*) > 0 FROM pg_stat_replication WHERE flush_lsn >= '{written}'");
        self.wait_until_true("a standby has received what was written", &received)
    }

    /// Answers no commit from now on before a standby has it.
    ///
    /// # Errors
    ///
    /// No standby confirms commits within a minute.
    pub fn wait_for_standby_at_commit(&self) -> Result<()> {
        self.set("synchronous_standby_names", "*")?;
        let confirms = "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'";
        self.wait_until_true("a standby confirms commits", confirms)
    }
}

/// Of a standby.
impl DatabaseServer {
    /// Receives nothing from now on: it lacks what the primary writes after this.
    ///
    /// # Errors
    ///
    /// It goes on receiving, or does not answer.
    pub fn stop_receiving(&self) -> Result<()> {
        self.set("primary_conninfo", "")?;
        let ended = "SELECT count(*) = 0 FROM pg_stat_wal_receiver";
        self.wait_until_true("the standby receives nothing any more", ended)
    }

    /// Receives again what this primary writes, and what it has missed.
    ///
    /// # Errors
    ///
    /// It does not receive, or does not answer.
    pub fn receive_from(&self, primary: &DatabaseServer) -> Result<()> {
        self.set("primary_conninfo", &address(primary))?;
        let receives = "SELECT count(*) > 0 FROM pg_stat_wal_receiver WHERE status = 'streaming'";
        self.wait_until_true("the standby receives", receives)
    }

    /// Becomes a primary, with what it has received.
    ///
    /// # Errors
    ///
    /// It is none within a minute.
    pub fn promote(&self) -> Result<()> {
        let promote = format!("SELECT pg_promote(true, {})", LIMIT.as_secs());
        self.wait_until_true("the standby is promoted", &promote)
    }
}

fn address(primary: &DatabaseServer) -> String {
    format!("host=127.0.0.1 port={} user={SUPERUSER}", primary.port())
}
