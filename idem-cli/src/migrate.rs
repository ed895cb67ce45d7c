//! `idem migrate`: creates the tables, or prints how.

use idem_amqp::operator::OperatorStore as _;
use serde_json::json;

use crate::{
    arguments::StoreArguments,
    error::Error,
    output::Output,
    store::{self, Kind, Tables},
};

pub(crate) async fn run(
    arguments: &StoreArguments,
    output: &Output,
    print: bool,
) -> Result<(), Error> {
    let (_, kind) = store::kind(arguments)?;
    if print {
        let statements = statements(arguments, kind)?;
        output.object(&json!({"statements": statements}))?;
        output.line(statements.trim_end())?;
        return Ok(());
    }
    let output = output.optional();
    let opened = store::open(arguments, Tables::Created).await?;
    opened.prepare().await?;
    output.line(match kind {
        Kind::Redis => "redis needs no tables",
        _ => "the tables are there",
    })?;
    output.object(&json!({"migrated": true}))?;
    Ok(())
}

fn statements(arguments: &StoreArguments, kind: Kind) -> Result<String, Error> {
    let table = arguments.table.as_deref().unwrap_or("idem_records");
    match kind {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => Ok(idem_amqp::SqliteStore::schema(table)?),
        #[cfg(feature = "postgres")]
        Kind::Postgres => {
            let schema = arguments.schema.as_deref();
            Ok(idem_amqp::PostgresStore::schema(schema, table)?)
        }
        _ => {
            let _ = table;
            Err(Error::Usage("this store needs no tables".into()))
        }
    }
}
