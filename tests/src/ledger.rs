//! The charges that workers made, wherever they are written.
//!
//! Leased handlers write to a SQLite file, which to them is another system; atomic ones write where
//! their store is.

use std::{collections::BTreeMap, path::PathBuf};

use tempfile::TempDir;

use crate::store_at::{Product, StoreAt};

pub mod in_postgres;
pub mod in_sqlite;

/// A charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The order's id.
    pub order_id: String,
    /// Which attempt wrote it.
    pub attempt: u32,
    /// Which worker wrote it.
    pub worker: String,
}

impl Charge {
    /// A charge of an order.
    pub fn new(order_id: &str, attempt: u32, worker: &str) -> Self {
        Self {
            order_id: order_id.into(),
            attempt,
            worker: worker.into(),
        }
    }
}

/// A ledger of one test's own, without a unique constraint: what is charged twice is there twice.
#[derive(Debug)]
pub struct Ledger {
    folder: TempDir,
    store: StoreAt,
}

impl Ledger {
    /// An empty ledger in a SQLite file that is the workers' store, too.
    pub async fn create() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = StoreAt::sqlite(&folder.path().join("ledger.db"));
        Self::in_folder(folder, store).await
    }

    /// An empty ledger for workers with a store of this kind, on the servers that tests share.
    pub async fn on(product: Product) -> Self {
        match product {
            Product::Sqlite => Self::create().await,
            Product::Postgres => Self::of(&StoreAt::postgres().await).await,
            Product::Redis => Self::of(&StoreAt::redis().await).await,
        }
    }

    /// An empty ledger for workers with this store.
    pub async fn of(store: &StoreAt) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::in_folder(folder, store.clone()).await
    }

    async fn in_folder(folder: TempDir, store: StoreAt) -> Self {
        let ledger = Self { folder, store };
        in_sqlite::create(&ledger.path()).await;
        if ledger.store.product() == Product::Postgres {
            in_postgres::create(&ledger.store.url).await;
        }
        ledger
    }

    /// The SQLite file.
    pub fn path(&self) -> PathBuf {
        self.file("ledger.db")
    }

    /// A path in the ledger's folder, which goes away with it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The workers' store.
    pub fn store(&self) -> &StoreAt {
        &self.store
    }

    /// All charges, in the order in which they were written.
    pub async fn charges(&self) -> Vec<Charge> {
        let mut charges = in_sqlite::charges(&self.path()).await;
        if self.store.product() == Product::Postgres {
            charges.extend(in_postgres::charges(&self.store.url).await);
        }
        charges
    }

    /// How often each order was charged that was.
    pub async fn charges_per_order(&self) -> BTreeMap<String, usize> {
        let mut charges = BTreeMap::new();
        for charge in self.charges().await {
            *charges.entry(charge.order_id).or_default() += 1;
        }
        charges
    }

    /// How many records the workers' store keeps.
    ///
    /// # Panics
    /// If it is a Redis.
    pub async fn records(&self) -> i64 {
        match self.store.product() {
            Product::Sqlite => in_sqlite::records(&self.path()).await,
            Product::Postgres => in_postgres::records(&self.store.url).await,
            Product::Redis => panic!("a Redis tells its keys to `StoreAt::until_recorded`"),
        }
    }

    /// How many charges there are.
    pub async fn count(&self) -> usize {
        self.charges().await.len()
    }
}
