//! A PostgreSQL with a small disk, which can be filled.

use std::{fs::File, io};

use super::{DATABASE, DatabaseServer, database_server::quoted, installed, layout::Disk};
use crate::{Error, Private, Result, server};

/// Room for a database, and for not much in it.
const FOR_A_DATABASE: Disk = Disk {
    bytes: 24 * 1024 * 1024,
    holds_the_log: false,
};

/// Room for what creating a few databases writes into the log.
const FOR_THE_LOG: Disk = Disk {
    bytes: 64 * 1024 * 1024,
    holds_the_log: true,
};

impl Private<DatabaseServer> {
    /// Starts a server that has a small disk of its own beside its folder, for databases of
    /// [`create_database_on_disk`](DatabaseServer::create_database_on_disk). The disk is lost when the server ends. Its
    /// log of transactions is elsewhere, so that the server goes on when the disk is full.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); or nothing may be mounted here: the error says so.
    pub fn start_beside_a_disk() -> Result<Self> {
        let server = Self::create_with_disk(&[], FOR_A_DATABASE)?;
        let create = format!("CREATE TABLESPACE disk LOCATION {}", server.on_disk(""));
        server.query(DATABASE, &create)?;
        Ok(server)
    }

    /// Starts a server whose log of transactions is on a small disk of its own: it ends itself when the disk is full.
    ///
    /// # Errors
    ///
    /// As [`start_beside_a_disk`](Self::start_beside_a_disk).
    pub fn start_with_its_log_on_a_disk() -> Result<Self> {
        // A checkpoint would make room.
        Self::create_with_disk(&[("checkpoint_timeout", "1d")], FOR_THE_LOG)
    }

    fn create_with_disk(settings: &[(&str, &str)], disk: Disk) -> Result<Self> {
        let installed = installed()?;
        let lay_out = DatabaseServer::lay_out_with_disk;
        Self::create(|folder| lay_out(folder, &installed, settings, disk))
    }
}

impl DatabaseServer {
    /// Creates an empty database on the small disk, and returns its URL.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query); a server without a small disk is an error.
    pub fn create_database_on_disk(&self, name: &str) -> Result<String> {
        let create = format!("CREATE DATABASE {} TABLESPACE disk", quoted(name));
        self.query(DATABASE, &create)?;
        Ok(self.url_of(name))
    }

    /// Leaves no room on the small disk: no table and no index can grow, or no log.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query); there is still room.
    pub fn fill_disk(&self) -> Result<()> {
        // What was written stays when it comes to its end.
        let ballast = self.on_disk("/ballast");
        let more = self.layout().disk().map_or(0, |disk| disk.bytes) / 1024;
        let fill =
            format!("COPY (SELECT repeat('x', 1024) FROM generate_series(1, {more})) TO {ballast}");
        match self.query(DATABASE, &fill) {
            Err(error) if error.to_string().contains("No space left on device") => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return Err(Error::io("fill the disk")(io::Error::other(
                    "it takes more than it has room for",
                )));
            }
        }
        if self.holds_its_log_on_disk() {
            // What is written next needs a segment that there is no room for.
            self.query(DATABASE, "SELECT pg_switch_wal()")?;
        }
        Ok(())
    }

    fn holds_its_log_on_disk(&self) -> bool {
        self.layout().disk().is_some_and(|disk| disk.holds_the_log)
    }

    /// Makes room on the small disk again; a server that has ended itself because of its log is started again.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query); or it does not come up again.
    pub fn empty_disk(&self) -> Result<()> {
        if self.holds_its_log_on_disk() {
            let room = self.layout().room();
            File::create(&room).map_err(Error::io(format!("create {}", room.display())))?;
            return server::wait_until_ready(self, || true);
        }
        let ballast = self.on_disk("/ballast");
        let cut = format!("COPY (SELECT WHERE false) TO {ballast}");
        self.query(DATABASE, &cut).map(drop)
    }

    fn on_disk(&self, name: &str) -> String {
        let path = format!("{}{name}", self.layout().place_of_disk().display());
        format!("'{}'", path.replace('\'', "''"))
    }
}
