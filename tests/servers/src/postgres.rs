//! PostgreSQL: a private database server from the installed programs.

mod database_server;
mod disk;
mod layout;
mod standby;

use std::{fs, path::Path};

pub use self::database_server::DatabaseServer;
pub(crate) use self::database_server::{DATABASE, url};
use super::{
    Installed, Private, Server,
    shared::{AtUrl, Shared},
};
use crate::Result;

/// The variable with which `cargo xtask test` hands the folder of its PostgreSQL to test binaries.
pub const FOLDER_VARIABLE: &str = "IDEM_TEST_POSTGRES";

const DEBIAN: &str = "/usr/lib/postgresql";

/// A PostgreSQL of one's own: its port, its data, all its processes; gone when dropped.
///
/// The superuser is `idem`, without a password, and so is the database.
pub type Postgres = Private<DatabaseServer>;

impl Private<DatabaseServer> {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// PostgreSQL is not installed, or did not come up; the end of its log is in the error.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with lines for `postgresql.conf` that win over ours.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); a setting that PostgreSQL does not accept is one of them.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let installed = installed()?;
        Self::create(|folder| DatabaseServer::lay_out(folder, &installed, settings))
    }
}

/// The server that ordinary tests share: the one of `cargo xtask test` if it runs us, else the one that `POSTGRES_URL`
/// names, else one of our own, started on the first call and gone with this process.
///
/// Isolate tests from each other by a database each ([`DatabaseServer::create_database`]).
///
/// # Errors
///
/// As [`Postgres::start`].
pub fn shared() -> Result<&'static DatabaseServer> {
    static SHARED: Shared<Postgres> = Shared::new();
    SHARED.get(
        FOLDER_VARIABLE,
        |folder| DatabaseServer::attach(Path::new(folder)),
        Some(AtUrl {
            variable: "POSTGRES_URL",
            like: "postgres://idem@127.0.0.1:PORT/idem",
            server: |port| Ok(DatabaseServer::at(port)),
        }),
        Postgres::start,
    )
}

/// Debian keeps the server's programs off the `PATH`, one folder per version; the newest one is taken.
pub(crate) fn installed() -> Result<Installed> {
    let entries = fs::read_dir(DEBIAN).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let usual = newest_first(names).map(|version| Path::new(DEBIAN).join(version).join("bin"));
    Installed::find(
        "PostgreSQL",
        usual,
        &["postgres", "initdb", "pg_basebackup", "psql"],
    )
}

fn newest_first(names: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut versions: Vec<_> = names
        .filter_map(|name| Some((name.parse::<f64>().ok()?, name)))
        .collect();
    versions.sort_by(|one, other| other.0.total_cmp(&one.0));
    versions.into_iter().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::newest_first;

    #[test]
    fn the_newest_version_is_looked_at_first() {
        let names = ["9.6", "15", "lib", "9.5", "17"].map(str::to_owned);
        let sorted: Vec<_> = newest_first(names.into_iter()).collect();
        assert_eq!(sorted, ["17", "15", "9.6", "9.5"]);
    }
}
