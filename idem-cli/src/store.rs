//! Opens the store that the command line names.

use idem_amqp::AnyStore;

use crate::{arguments::StoreArguments, error::Error};

/// Whether tables may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tables {
    /// A mistyped name must not make an empty store.
    MustExist,
    Created,
}

/// What kind of store a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    Redis,
    /// Unknown, or not compiled in: the library says so.
    Other,
}

/// The URL, and what kind of store it names.
pub(crate) fn kind(store: &StoreArguments) -> Result<(&str, Kind), Error> {
    let url = store.url.as_deref().ok_or(Error::NoStore)?;
    let kind = match url.split(':').next() {
        Some("sqlite") if cfg!(feature = "sqlite") => Kind::Sqlite,
        Some("postgres" | "postgresql") if cfg!(feature = "postgres") => Kind::Postgres,
        Some(
            "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel"
            | "rediss+sentinel",
        ) if cfg!(feature = "redis") => Kind::Redis,
        Some("memory") => {
            let text =
                "a memory store lives and ends with its worker: nobody else can look into it";
            return Err(Error::Usage(text.into()));
        }
        _ => Kind::Other,
    };
    let misplaced = [
        (
            "--table",
            &store.table,
            [Kind::Sqlite, Kind::Postgres].as_slice(),
        ),
        ("--schema", &store.schema, &[Kind::Postgres]),
        ("--prefix", &store.prefix, &[Kind::Redis]),
    ];
    for (option, value, of) in misplaced {
        if value.is_some() && kind != Kind::Other && !of.contains(&kind) {
            let text = format!("`{option}` means nothing to this store: leave it out");
            return Err(Error::Usage(text));
        }
    }
    Ok((url, kind))
}

/// Opens the store.
pub(crate) async fn open(store: &StoreArguments, tables: Tables) -> Result<AnyStore, Error> {
    let (url, kind) = kind(store)?;
    match kind {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => sqlite(url, store, tables).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres => postgres(url, store, tables).await,
        #[cfg(feature = "redis")]
        Kind::Redis => {
            let builder = idem_amqp::RedisStore::builder(url);
            let mut builder = builder.response_timeout(store.timeout);
            if let Some(prefix) = &store.prefix {
                builder = builder.prefix(prefix);
            }
            Ok(builder.build().await?.into())
        }
        _ => {
            let _ = tables;
            Ok(AnyStore::connect(url).await?)
        }
    }
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str, store: &StoreArguments, tables: Tables) -> Result<AnyStore, Error> {
    let mut builder = idem_amqp::SqliteStore::builder(url)
        .create_if_missing(matches!(tables, Tables::Created))
        .busy_timeout(store.timeout);
    if let Some(table) = &store.table {
        builder = builder.table(table);
    }
    Ok(builder.build().await?.into())
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str, store: &StoreArguments, tables: Tables) -> Result<AnyStore, Error> {
    use idem_amqp::stores::Migrate;

    let migrate = match tables {
        Tables::MustExist => Migrate::Never,
        Tables::Created => Migrate::AtStart,
    };
    let mut builder = idem_amqp::PostgresStore::builder(url)
        .migrate(migrate)
        .response_timeout(store.timeout);
    if let Some(table) = &store.table {
        builder = builder.table(table);
    }
    if let Some(schema) = &store.schema {
        builder = builder.schema(schema);
    }
    Ok(builder.build().await?.into())
}
