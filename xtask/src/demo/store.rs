//! Where the workers remember what they have done: a file or a server, of this run alone unless
//! `STORE_URL` names another.

use std::{env, time::Instant};

use idem_servers::{Error, Postgres, Redis, Result, install};

/// A kind of store that the order worker can use.
#[derive(Clone, Copy, Debug, clap::ValueEnum, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// One SQLite file, shared by both workers
    Sqlite,
    /// A PostgreSQL server, private unless `STORE_URL` names one
    Postgres,
    /// A Redis server, private unless `STORE_URL` names one
    Redis,
}

/// A store, there as long as this is.
#[derive(Debug)]
pub(crate) enum Store {
    /// A file in the folder of the run.
    File,
    /// Somebody else's server.
    Given(String),
    Postgres(Postgres),
    Redis(Redis),
}

impl StoreKind {
    /// The order worker's feature.
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }

    fn product(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        }
    }

    fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Sqlite => &["sqlite"],
            Self::Postgres => &["postgres", "postgresql"],
            Self::Redis => &["redis"],
        }
    }

    /// The URL, if it is one of this kind.
    ///
    /// # Errors
    ///
    /// It is of another kind: whoever set it may want something else than what will be shown.
    fn accept(self, url: String) -> Result<String> {
        let scheme = url.split(':').next().unwrap_or_default();
        if self.schemes().contains(&scheme) {
            return Ok(url);
        }
        Err(Error::Missing(format!(
            "STORE_URL begins with `{scheme}:`, which `--store {}` does not fit: change either, or unset STORE_URL for a private server",
            self.feature()
        )))
    }
}

impl Store {
    /// The one that `STORE_URL` names, else a private one that keeps what it is told.
    pub(crate) fn open(kind: StoreKind) -> Result<Self> {
        if kind == StoreKind::Sqlite {
            return Ok(Self::File);
        }
        if let Some(url) = env::var("STORE_URL").ok().filter(|url| !url.is_empty()) {
            let url = kind.accept(url)?;
            println!(
                "{}: the one that STORE_URL names; charges and records stay there",
                kind.product()
            );
            return Ok(Self::Given(url));
        }
        let start = Instant::now();
        let (store, port) = Self::start(kind)?;
        println!(
            "{}: a private one on port {port}, up in {:.1?}",
            kind.product(),
            start.elapsed()
        );
        Ok(store)
    }

    fn start(kind: StoreKind) -> Result<(Self, u16)> {
        if kind == StoreKind::Redis {
            install::installed_redis()?;
            let server = Redis::start_with(&[("appendonly", "yes")])?;
            let port = server.port();
            return Ok((Self::Redis(server), port));
        }
        install::installed_postgres()?;
        let server = Postgres::start_with(&[("fsync", "on")])?;
        let port = server.port();
        Ok((Self::Postgres(server), port))
    }

    /// For the workers; none for a file, which is in the folder of the run.
    pub(crate) fn url(&self) -> Option<String> {
        match self {
            Self::File => None,
            Self::Given(url) => Some(url.clone()),
            Self::Postgres(server) => Some(server.url()),
            Self::Redis(server) => Some(server.url()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StoreKind;

    #[test]
    fn a_url_of_another_kind_of_store_is_refused() {
        let given = |kind: StoreKind, url: &str| kind.accept(url.to_owned());
        for (kind, url) in [
            (StoreKind::Postgres, "postgres://db/orders"),
            (StoreKind::Postgres, "postgresql://db/orders"),
            (StoreKind::Redis, "redis://cache/0"),
        ] {
            assert_eq!(given(kind, url).expect("it fits"), url);
        }
        let error = given(StoreKind::Redis, "postgres://db").expect_err("it does not fit");
        assert!(error.to_string().contains("`postgres:`"), "{error}");
    }
}
