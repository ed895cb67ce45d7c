//! The names of the schema and the tables, checked and put into the statements.

use std::fmt;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use super::template::{Template, bare};

use crate::store::ConnectError;

/// The name that the files beside this one are written with.
pub(super) const DEFAULT_TABLE: &str = "idem_records";

/// What stands in several statements, by the placeholder that it replaces.
/// One that stands in another comes later.
const FRAGMENTS: [(&str, &str); 5] = [
    ("{claim_input}", include_str!("claim_input.sql")),
    ("{claim_answers}", include_str!("claim_answers.sql")),
    ("{acquires}", include_str!("acquires.sql")),
    ("{forgotten}", include_str!("forgotten.sql")),
    ("{record}", include_str!("record.sql")),
];

/// What follows the table's name in names that cannot be qualified.
const UNQUALIFIED: [&str; 7] = [
    "_purge_after",
    "_remove_at",
    "_expires_at",
    "_outbox_due",
    "_outbox_lane",
    "_outbox_later",
    "_outbox_dead",
];

/// A schema and a table in it.
#[derive(Debug, Clone)]
pub(super) struct Names {
    schema: Option<String>,
    table: String,
}

impl Names {
    /// Without a schema the names are left to the `search_path`.
    pub(super) fn new(schema: Option<&str>, table: &str) -> Result<Self, ConnectError> {
        if !is_table(table) {
            return Err(ConnectError::InvalidTable {
                table: table.to_owned(),
            });
        }
        if let Some(schema) = schema.filter(|schema| !is_schema(schema)) {
            return Err(ConnectError::InvalidSchema {
                schema: schema.to_owned(),
            });
        }
        Ok(Self {
            schema: schema.map(str::to_owned),
            table: table.to_owned(),
        })
    }

    /// The same tables in this schema, whose name the server has told. It need not be plain, but
    /// must not end the quotes that it stands in, nor hold placeholders.
    pub(super) fn within(&self, schema: String) -> Result<Self, ConnectError> {
        if schema.contains(['"', '\'', '\\', '{', '}']) {
            return Err(ConnectError::InvalidSchema { schema });
        }
        Ok(Self {
            schema: Some(schema),
            table: self.table.clone(),
        })
    }

    pub(super) fn table(&self) -> &str {
        &self.table
    }

    pub(super) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The statement that creates the schema, if there is one to create.
    pub(super) fn create_schema(&self) -> Option<SqlStr> {
        let schema = self.schema.as_deref()?;
        let statement = format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"");
        Some(AssertSqlSafe(statement).into_sql_str())
    }

    /// A file's statements, about these tables.
    pub(super) fn put_into(&self, file: &str) -> SqlStr {
        AssertSqlSafe(self.text_of(file)).into_sql_str()
    }

    /// The same, with places for what differs.
    pub(super) fn template(&self, file: &str) -> Template {
        Template::new(&self.text_of(file))
    }

    /// A file for people to read, too, about these tables.
    pub(super) fn put_into_script(&self, file: &str) -> SqlStr {
        AssertSqlSafe(self.rename(file)).into_sql_str()
    }

    // A checked name has no character that could end the identifier it stands in.
    fn text_of(&self, file: &str) -> String {
        let whole = FRAGMENTS
            .iter()
            .fold(file.to_owned(), |text, (placeholder, fragment)| {
                text.replace(placeholder, fragment.trim_end())
            });
        self.rename(&bare(&whole))
    }

    fn rename(&self, sql: &str) -> String {
        let mut pieces = sql.split(DEFAULT_TABLE);
        let mut renamed = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = piece
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(piece.len());
            let (suffix, rest) = piece.split_at(end);
            renamed.push_str(&self.identifier(suffix));
            renamed.push_str(rest);
        }
        renamed
    }

    fn identifier(&self, suffix: &str) -> String {
        let table = &self.table;
        match &self.schema {
            Some(schema) if !UNQUALIFIED.contains(&suffix) => {
                format!(r#""{schema}"."{table}{suffix}""#)
            }
            _ => format!(r#""{table}{suffix}""#),
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "`{schema}.{}`", self.table),
            None => write!(f, "`{}`", self.table),
        }
    }
}

/// Whether it can name a table, with room for what is appended to it.
fn is_table(name: &str) -> bool {
    is_name(name, 48)
}

/// `PostgreSQL` cuts longer names off, and keeps those that begin with `pg_` for itself.
fn is_schema(name: &str) -> bool {
    is_name(name, 63)
}

fn is_name(name: &str, longest: usize) -> bool {
    let mut bytes = name.bytes();
    let reserved = name
        .get(..3)
        .is_some_and(|head| head.eq_ignore_ascii_case("pg_"));
    name.len() <= longest
        && !reserved
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_schemas_have_plain_names() {
        for good in ["idem_records", "_x", "T2", "pgfoo"] {
            assert!(is_table(good) && is_schema(good), "{good}");
        }
        for bad in ["", "2t", "a b", "a\"b", "a;b", "é", "a.b", "PG_x", "a'b"] {
            assert!(!is_table(bad) && !is_schema(bad), "{bad}");
        }
        let [short, long] = [48, 63].map(|length| "x".repeat(length));
        assert!(is_table(&short) && !is_table(&format!("{short}x")));
        assert!(is_schema(&long) && !is_schema(&format!("{long}x")));
    }

    #[test]
    fn every_name_is_quoted_and_qualified() {
        let names = Names::new(Some("Idem"), "dedup").unwrap();
        let sql = "INSERT INTO idem_records SELECT nextval('idem_records_token'), \
                   idem_records.key; CREATE INDEX idem_records_purge_after ON idem_records (x)";
        assert_eq!(
            names.rename(sql),
            "INSERT INTO \"Idem\".\"dedup\" SELECT nextval('\"Idem\".\"dedup_token\"'), \
             \"Idem\".\"dedup\".key; CREATE INDEX \"dedup_purge_after\" ON \"Idem\".\"dedup\" (x)"
        );
    }

    #[test]
    fn the_longest_names_are_not_cut_off() {
        let longest = UNQUALIFIED.iter().map(|suffix| suffix.len()).max().unwrap();
        assert!(48 + longest <= 63);
    }
}
