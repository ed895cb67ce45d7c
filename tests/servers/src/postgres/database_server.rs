//! What can be asked of a PostgreSQL that runs, by its owner or by another process.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::layout::{Disk, Layout};
use crate::{
    Error, Installed, Result, Server, probe, server, url::percent_encoded, watchdog::Launch,
};

pub(super) const SUPERUSER: &str = "idem";
pub(crate) const DATABASE: &str = "idem";
/// How long a test waits for what the server does by itself.
pub(super) const LIMIT: Duration = Duration::from_mins(1);

/// A running private PostgreSQL: its address and its databases.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct DatabaseServer {
    layout: Layout,
}

impl Server for DatabaseServer {
    const PRODUCT: &'static str = "PostgreSQL";
    const BOOT_LIMIT: Duration = Duration::from_mins(1);
    /// Ends the sessions of clients that are still there; SIGTERM would wait for them.
    const STOP_SIGNAL: Signal = Signal::SIGINT;

    fn folder(&self) -> &Path {
        &self.layout.folder
    }

    fn is_ready(&self) -> bool {
        self.answers_on(self.port())
    }

    fn launch(&self) -> Launch {
        self.layout.launch()
    }
}

impl DatabaseServer {
    pub(crate) fn lay_out(
        folder: &Path,
        installed: &Installed,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let layout = Layout::create(folder, installed, settings, None)?;
        Ok(Self { layout })
    }

    /// As [`lay_out`](Self::lay_out), with a small disk.
    pub(super) fn lay_out_with_disk(
        folder: &Path,
        installed: &Installed,
        settings: &[(&str, &str)],
        disk: Disk,
    ) -> Result<Self> {
        let layout = Layout::create(folder, installed, settings, None)?.with_disk(disk);
        Ok(Self { layout })
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A server that somebody else has started, of which nothing but the port is known.
    pub(crate) fn at(port: u16) -> Self {
        let layout = Layout::of_port(port);
        Self { layout }
    }

    /// As [`lay_out`](Self::lay_out), with the data of this primary, which it goes on receiving.
    pub(crate) fn lay_out_standby(
        folder: &Path,
        installed: &Installed,
        settings: &[(&str, &str)],
        primary: String,
    ) -> Result<Self> {
        let layout = Layout::create(folder, installed, settings, Some(primary))?;
        Ok(Self { layout })
    }

    /// Whether it is this server that one reaches by a port, which may be a pooler's.
    pub(crate) fn answers_on(&self, port: u16) -> bool {
        let data = self.layout.data().display().to_string();
        probe::answers(port, &asking_for_the_data_directory(), &data)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.layout.port
    }

    /// The URL of the database `idem`, for the superuser `idem`.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The URL of a database, for the superuser `idem`.
    pub fn url_of(&self, database: &str) -> String {
        url(self.port(), database)
    }

    /// Creates an empty database and returns its URL; takes about 0.1 s.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query); a database that exists is an error.
    pub fn create_database(&self, name: &str) -> Result<String> {
        self.query(DATABASE, &format!("CREATE DATABASE {}", quoted(name)))?;
        Ok(self.url_of(name))
    }

    /// Drops a database; sessions in it are ended.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query); a database that is not there is no error.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        let drop_it = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", quoted(name));
        self.query(DATABASE, &drop_it).map(drop)
    }

    /// Runs SQL with `psql` and returns its rows: a line each, columns separated by `|`.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] with what it said. A server that is down is an error; for a frozen one
    /// this waits until it is thawed.
    pub fn query(&self, database: &str, sql: &str) -> Result<String> {
        let output = self
            .layout
            .psql(SUPERUSER, database)
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set", "ON_ERROR_STOP=1", "--command", sql])
            .output()
            .map_err(Error::io("run psql"))?;
        if !output.status.success() {
            return Err(Error::command(format!("psql --command {sql:?}"), &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Changes a setting of all sessions. Those that are open have it from their next statement on.
    ///
    /// # Errors
    ///
    /// It cannot be changed, or has another value a minute later.
    pub fn set(&self, setting: &str, value: &str) -> Result<()> {
        // Each by itself: `ALTER SYSTEM` refuses to share a transaction.
        self.ask(&format!("ALTER SYSTEM SET {setting} = '{value}'"))?;
        self.ask("SELECT pg_reload_conf()")?;
        // The server reloads after it answered. It signals the sessions that are open before it
        // starts another, so that one that has the value proves that all have it.
        let is_set = format!("SELECT current_setting('{setting}') = '{value}'");
        self.wait_until_true(&format!("{setting} is {value}"), &is_set)
    }

    pub(super) fn ask(&self, sql: &str) -> Result<String> {
        let answer = self.query(DATABASE, sql)?;
        Ok(answer.trim_end().to_owned())
    }

    pub(super) fn wait_until_true(&self, what: &str, sql: &str) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while self.ask(sql)? != "t" {
            if Instant::now() > deadline {
                return Err(server::failure(
                    self,
                    &format!("not within {LIMIT:?}: {what}"),
                ));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// The URL of a database by a port, which may be a pooler's.
pub(crate) fn url(port: u16, database: &str) -> String {
    let database = percent_encoded(database);
    format!("postgres://{SUPERUSER}@127.0.0.1:{port}/{database}")
}

pub(super) fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

/// The first words of PostgreSQL's protocol: who we are, and a query in the same breath.
fn asking_for_the_data_directory() -> Vec<u8> {
    let version = 3_u32 << 16;
    let who = format!("user\0{SUPERUSER}\0database\0{DATABASE}\0\0");
    let query = "SHOW data_directory\0";
    let mut words = Vec::new();
    words.extend(length_of(8 + who.len()));
    words.extend(version.to_be_bytes());
    words.extend(who.as_bytes());
    words.push(b'Q');
    words.extend(length_of(4 + query.len()));
    words.extend(query.as_bytes());
    words
}

fn length_of(message: usize) -> [u8; 4] {
    u32::try_from(message).expect("a few words").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_name_cannot_end_its_quotes() {
        assert_eq!(quoted("a\"; DROP"), "\"a\"\"; DROP\"");
    }
}
