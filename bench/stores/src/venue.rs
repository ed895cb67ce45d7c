//! Where a store and the code beside it keep their keys.

use std::path::PathBuf;

use bench_driver::StoreKind;
use tempfile::TempDir;

use crate::Result;

/// A place of one store's kind.
#[derive(Debug)]
pub(crate) enum Venue {
    Memory,
    Sqlite(TempDir),
    Postgres { url: String },
    Redis { url: String },
    RedisCluster { url: String },
}

/// Which store is measured, and where it is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// The store
    #[arg(long, value_enum)]
    store: StoreKind,
    /// The server: a new database, or an empty Redis
    #[arg(long)]
    url: Option<String>,
}

impl Place {
    pub(crate) fn open(&self) -> Result<Venue> {
        let url = || {
            let missing = "this store takes the `--url` of a server";
            self.url.clone().ok_or(missing)
        };
        Ok(match self.store {
            StoreKind::Memory => Venue::Memory,
            StoreKind::Sqlite => Venue::Sqlite(tempfile::tempdir()?),
            StoreKind::Postgres => Venue::Postgres { url: url()? },
            StoreKind::Redis => Venue::Redis { url: url()? },
            StoreKind::RedisCluster => Venue::RedisCluster { url: url()? },
        })
    }
}

/// The SQLite file of the store.
pub(crate) fn our_file(folder: &TempDir) -> PathBuf {
    folder.path().join("idem.db")
}

/// The SQLite file of the code beside it.
pub(crate) fn naive_file(folder: &TempDir) -> PathBuf {
    folder.path().join("naive.db")
}

/// The nodes that the URL of a cluster names.
pub(crate) fn nodes(url: &str) -> Vec<String> {
    let hosts = url.trim_start_matches("redis+cluster://");
    let node = |host: &str| format!("redis://{host}");
    hosts.split(',').map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::nodes;

    #[test]
    fn each_node_has_a_url_of_its_own() {
        let named = nodes("redis+cluster://127.0.0.1:1,127.0.0.1:2");
        assert_eq!(named, ["redis://127.0.0.1:1", "redis://127.0.0.1:2"]);
    }
}
