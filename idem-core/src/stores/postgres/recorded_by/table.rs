//! The table that a constraint is about, as the server describes it.

use std::time::Duration;

use sqlx::{Row as _, postgres::PgRow};

/// A table of the handlers', and the unique index of the constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// How long statements wait for a lock unless a transaction says otherwise; `None` is for ever.
    pub(super) lock_timeout: Option<Duration>,
}

/// A column of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    name: String,
    /// The type that the index compares, qualified and quoted.
    compared: String,
    /// Its equality, qualified.
    equals: String,
}

/// What an index may not be.
const FLAWS: [(&str, bool, &str); 5] = [
    (
        "is_unique",
        false,
        "it is not unique: add a unique constraint",
    ),
    (
        "is_ready",
        false,
        "its index is not valid, because it could not be built: drop it and create it again",
    ),
    (
        "is_partial",
        true,
        "its index is partial, so it lets copies of other rows pass: use one without `WHERE`",
    ),
    (
        "has_expressions",
        true,
        "its index is on an expression: use one on columns, which hold the parts of the key",
    ),
    (
        "is_partitioned",
        true,
        "its table is partitioned, and the server's errors then name the index of one partition: \
         use a table that is not, or leave `recorded_by` out",
    ),
];

/// Reads what `table.sql` has found; an `Ok(Err(…))` says why it will not do.
pub(super) fn read(row: &PgRow) -> Result<Result<Table, String>, sqlx::Error> {
    for (column, flawed, reason) in FLAWS {
        if row.try_get::<bool, _>(column)? == flawed {
            return Ok(Err(reason.to_owned()));
        }
    }
    let [columns, types, operators]: [Vec<String>; 3] = [
        row.try_get("columns")?,
        row.try_get("types")?,
        row.try_get("operators")?,
    ];
    let compared = types.into_iter().zip(operators);
    let columns = columns.into_iter().zip(compared);
    let millis = u64::try_from(row.try_get::<i64, _>("lock_timeout")?).unwrap_or(0);
    Ok(Ok(Table {
        schema: row.try_get("schema")?,
        name: row.try_get("table")?,
        columns: columns
            .map(|(name, (compared, equals))| Column {
                name,
                compared,
                equals,
            })
            .collect(),
        lock_timeout: (millis > 0).then(|| Duration::from_millis(millis)),
    }))
}

impl Table {
    /// Whether a row holds these values, each an expression of type `text`.
    pub(super) fn found(&self, values: impl IntoIterator<Item = String>) -> String {
        format!("EXISTS (SELECT {})", self.rows(values))
    }

    /// Which transactions have written the rows that hold these values: more than one row only
    /// while the constraint is deferred.
    pub(super) fn writers(&self, values: impl IntoIterator<Item = String>) -> String {
        format!("ARRAY(SELECT entity.xmin {})", self.rows(values))
    }

    fn rows(&self, values: impl IntoIterator<Item = String>) -> String {
        let conditions: Vec<_> = self
            .columns
            .iter()
            .zip(values)
            .map(|(column, value)| column.is(&value))
            .collect();
        let table = format!("{}.{}", quoted(&self.schema), quoted(&self.name));
        format!(
            "FROM ONLY {table} AS entity WHERE {}",
            conditions.join(" AND ")
        )
    }

    /// The table's name, for people.
    pub(super) fn title(&self) -> String {
        format!("`{}.{}`", self.schema, self.name)
    }

    /// The columns' names, for people.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.columns.iter().map(|column| &*column.name).collect();
        names.join(", ")
    }
}

impl Column {
    fn is(&self, value: &str) -> String {
        let Self {
            name,
            compared,
            equals,
        } = self;
        format!(
            "entity.{}::{compared} OPERATOR({equals}) {value}::{compared}",
            quoted(name)
        )
    }
}

/// An identifier as the server has told it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_whatever_they_are() {
        let table = Table {
            schema: "shop".into(),
            name: "pay\"ments".into(),
            columns: vec![
                Column {
                    name: "{key}".into(),
                    compared: "pg_catalog.text".into(),
                    equals: "pg_catalog.=".into(),
                },
                Column {
                    name: "number".into(),
                    compared: "pg_catalog.int4".into(),
                    equals: "pg_catalog.=".into(),
                },
            ],
            lock_timeout: None,
        };
        let found = table.found(["$3::text".into(), "$4::text".into()]);
        assert_eq!(
            found,
            "EXISTS (SELECT FROM ONLY \"shop\".\"pay\"\"ments\" AS entity WHERE \
             entity.\"{key}\"::pg_catalog.text OPERATOR(pg_catalog.=) $3::text::pg_catalog.text AND \
             entity.\"number\"::pg_catalog.int4 OPERATOR(pg_catalog.=) $4::text::pg_catalog.int4)"
        );
    }
}
