//! Where mq-bridge keeps its keys.

use bench_driver::consume::Contestant;
use bench_orders::Options;
use tempfile::TempDir;

use crate::Result;

/// A store that knows nothing yet, as mq-bridge is told of it.
#[derive(Debug)]
pub(crate) struct Store {
    url: String,
    /// Goes away with the store, if that is a file.
    _folder: Option<TempDir>,
}

impl Store {
    pub(crate) fn of(options: &Options) -> Result<Self> {
        let (url, folder) = match options.contestant {
            Contestant::MqBridgeMemory => ("memory://".to_owned(), None),
            Contestant::MqBridgeSqlite => {
                let folder = tempfile::tempdir()?;
                let file = folder.path().join("keys.db");
                let url = format!("sqlite://{}?mode=rwc", file.display());
                (url, Some(folder))
            }
            Contestant::MqBridgePostgres => (options.store_url()?.to_owned(), None),
            other => return Err(format!("{} is not mq-bridge", other.name()).into()),
        };
        Ok(Self {
            url,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}
