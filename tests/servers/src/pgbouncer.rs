//! PgBouncer: a private connection pooler in front of a private PostgreSQL.

mod layout;
mod pooler;

use std::path::PathBuf;

pub use self::pooler::Pooler;
use super::{Installed, Private, postgres::DatabaseServer};
use crate::Result;

/// A PgBouncer of one's own: its port, its process; gone when dropped.
///
/// It knows every database of its PostgreSQL, and anybody is the superuser `idem`.
pub type PgBouncer = Private<Pooler>;

impl Private<Pooler> {
    /// Starts a pooler in transaction mode in front of `server`, with lines for the section
    /// `pgbouncer` of its configuration that win over ours, and waits until it leads there.
    ///
    /// # Errors
    ///
    /// PgBouncer is not installed, or did not come up, or the server behind it does not answer.
    pub fn start(server: &DatabaseServer, settings: &[(&str, &str)]) -> Result<Self> {
        let installed = installed()?;
        Self::create(|folder| Pooler::lay_out(folder, &installed, server, settings))
    }
}

pub(crate) fn installed() -> Result<Installed> {
    let usual = [PathBuf::from("/usr/sbin")];
    Installed::find("PgBouncer", usual, &["pgbouncer"])
}
