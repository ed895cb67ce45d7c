//! A store's own table, filled with completed records.

use std::sync::Arc;

use idem_core::{
    PostgresStore,
    sqlx::{self, AssertSqlSafe, Connection, PgConnection},
};
use xtask::bench::stores::{Kind, Pace};

use crate::{
    Result,
    contender::Contender,
    names::Names,
    ours::Ours,
    round::{self, Until},
};

#[derive(Debug)]
pub(super) struct Table {
    name: &'static str,
    url: String,
    records: u64,
    ours: Arc<Ours<PostgresStore>>,
    names: Arc<Names>,
}

impl Table {
    /// Creates the table as the store does, fills it, and leaves it as after long use: analysed,
    /// and with nothing left to be written.
    pub(super) async fn filled(url: &str, name: &'static str, records: u64) -> Result<Self> {
        let store = PostgresStore::builder(url).table(name).build().await?;
        let mut connection = PgConnection::connect(url).await?;
        // Indexes that are built afterwards are built much faster.
        let without_indexes = format!(
            "ALTER TABLE {name} DROP CONSTRAINT {name}_pkey; DROP INDEX {name}_purge_after"
        );
        let with_indexes = format!(
            "ALTER TABLE {name} ADD PRIMARY KEY (key);
             CREATE INDEX {name}_purge_after ON {name} (purge_after)"
        );
        let fill = include_str!("fill.sql").replace("crowd", name);
        execute(&mut connection, without_indexes).await?;
        sqlx::query(AssertSqlSafe(fill))
            .bind(i64::try_from(records)?)
            .execute(&mut connection)
            .await?;
        execute(&mut connection, with_indexes).await?;
        execute(&mut connection, format!("VACUUM ANALYZE {name}")).await?;
        execute(&mut connection, "CHECKPOINT".to_owned()).await?;
        Ok(Self {
            name,
            url: url.to_owned(),
            records,
            ours: Arc::new(Ours(store)),
            names: Arc::new(Names::new()),
        })
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// The table, its key's index, and the index for purging, in bytes.
    pub(super) async fn sizes(&self) -> Result<Vec<(&'static str, u64)>> {
        let name = self.name;
        let mut connection = PgConnection::connect(&self.url).await?;
        let mut sizes = Vec::new();
        for (part, relation) in [
            ("table", name.to_owned()),
            ("index of keys", format!("{name}_pkey")),
            ("index for purging", format!("{name}_purge_after")),
        ] {
            let size: i64 = sqlx::query_scalar("SELECT pg_table_size($1::regclass)")
                .bind(relation)
                .fetch_one(&mut connection)
                .await?;
            sizes.push((part, size.try_into()?));
        }
        Ok(sizes)
    }

    /// Lets callers claim keys; new ones stay claimed.
    pub(super) async fn claim(&self, kind: Kind, callers: usize, claims: u64) -> Result<Pace> {
        let names = match kind {
            Kind::New => (0..claims).map(|_| self.names.next()).collect(),
            Kind::Duplicate => self.some_names(claims).await?,
        };
        let (ours, names) = (Arc::clone(&self.ours), Arc::new(names));
        let claim = move |number| {
            let (ours, names) = (Arc::clone(&ours), Arc::clone(&names));
            async move {
                let name: &String = &names[usize::try_from(number)?];
                match kind {
                    Kind::New => ours.acquire(name).await.map(drop),
                    Kind::Duplicate => ours.again(name).await,
                }
            }
        };
        round::run(callers, Until::Done(claims), claim).await
    }

    /// Names of completed records from anywhere in the table.
    async fn some_names(&self, count: u64) -> Result<Vec<String>> {
        let mut connection = PgConnection::connect(&self.url).await?;
        let anywhere = || i64::try_from(fastrand::u64(1..=self.records));
        let numbers: Vec<i64> = (0..count).map(|_| anywhere()).collect::<Result<_, _>>()?;
        let names = sqlx::query_scalar(
            "SELECT left(md5(number::text), 16) FROM unnest($1::bigint[]) AS number",
        );
        Ok(names.bind(numbers).fetch_all(&mut connection).await?)
    }
}

async fn execute(connection: &mut PgConnection, statements: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(connection)
        .await?;
    Ok(())
}
