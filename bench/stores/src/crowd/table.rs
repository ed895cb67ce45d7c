//! A store's own table, filled with completed records.

use std::sync::Arc;

use bench_driver::stores::{Kind, Pace};
use idem_core::{
    PostgresStore,
    sqlx::{self, Connection, PgConnection},
};

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
    /// One that is new, as after long use.
    pub(super) async fn filled(url: &str, name: &'static str, records: u64) -> Result<Self> {
        bench_stores::fill(url, name, records, "").await?;
        let store = PostgresStore::builder(url).table(name).build().await?;
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
