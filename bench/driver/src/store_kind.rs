//! The stores that there are.

/// A store that can be measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum, serde::Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// This process's memory, beside a map behind a lock.
    Memory,
    /// A SQLite file.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
    /// A Redis server.
    Redis,
    /// Three Redis servers that share the keys.
    RedisCluster,
}

impl StoreKind {
    /// As it is written on a command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::RedisCluster => "redis-cluster",
        }
    }
}
