//! What can be asked of a PgBouncer that runs, by its owner or by another process.

use std::{path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::{
    Installed, Result, Server,
    postgres::{DATABASE, DatabaseServer, url},
    watchdog::Launch,
};

/// A running private PgBouncer: its address.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Pooler {
    layout: Layout,
}

impl Server for Pooler {
    const PRODUCT: &'static str = "PgBouncer";
    const BOOT_LIMIT: Duration = Duration::from_secs(30);

    fn folder(&self) -> &Path {
        &self.layout.folder
    }

    /// Whether it leads to its PostgreSQL.
    fn is_ready(&self) -> bool {
        self.layout.server.answers_on(self.port())
    }

    fn launch(&self) -> Launch {
        self.layout.launch()
    }
}

impl Pooler {
    pub(crate) fn lay_out(
        folder: &Path,
        installed: &Installed,
        server: &DatabaseServer,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let layout = Layout::create(folder, installed, server, settings)?;
        Ok(Self { layout })
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.layout.port
    }

    /// The URL of the database `idem` through the pooler.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The URL of a database through the pooler.
    pub fn url_of(&self, database: &str) -> String {
        url(self.port(), database)
    }
}
