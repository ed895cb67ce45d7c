//! A PostgreSQL beside a small disk, which can be filled.

use std::io;

use super::{DATABASE, DatabaseServer, database_server::quoted, installed};
use crate::{Error, Private, Result};

/// Room for a database, and for not much in it.
const SIZE: u64 = 24 * 1024 * 1024;

impl Private<DatabaseServer> {
    /// Starts a server that has a small disk of its own beside its folder, for databases of
    /// [`create_database_on_disk`](DatabaseServer::create_database_on_disk). The disk is lost when the server ends. Its log
    /// of transactions is elsewhere, so that the server goes on when the disk is full.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); or nothing may be mounted here: the error says so.
    pub fn start_beside_a_disk() -> Result<Self> {
        let installed = installed()?;
        let server =
            Self::create(|folder| DatabaseServer::lay_out_beside_a_disk(folder, &installed, SIZE))?;
        let create = format!("CREATE TABLESPACE disk LOCATION {}", server.on_disk(""));
        server.query(DATABASE, &create)?;
        Ok(server)
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

    /// Leaves no room on the small disk: no table and no index can grow.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query); there is still room.
    pub fn fill_disk(&self) -> Result<()> {
        // What was written stays when it comes to its end.
        let ballast = self.on_disk("/ballast");
        let more = SIZE / 1024;
        let fill =
            format!("COPY (SELECT repeat('x', 1024) FROM generate_series(1, {more})) TO {ballast}");
        match self.query(DATABASE, &fill) {
            Err(error) if error.to_string().contains("No space left on device") => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Error::io("fill the disk")(io::Error::other(
                "it takes more than it has room for",
            ))),
        }
    }

    /// Makes room on the small disk again.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub fn empty_disk(&self) -> Result<()> {
        let ballast = self.on_disk("/ballast");
        let cut = format!("COPY (SELECT WHERE false) TO {ballast}");
        self.query(DATABASE, &cut).map(drop)
    }

    fn on_disk(&self, name: &str) -> String {
        let path = format!("{}{name}", self.disk().display());
        format!("'{}'", path.replace('\'', "''"))
    }
}
