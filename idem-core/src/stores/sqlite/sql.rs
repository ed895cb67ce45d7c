//! The statements, with the table's name put in.

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

pub(super) mod operator;
pub(super) mod outbox;
mod sequences;
mod streams;
use crate::store::ConnectError;

/// The name that the files beside this one are written with.
pub(super) const DEFAULT_TABLE: &str = "idem_records";

pub(super) struct Sql {
    pub(super) schema: SqlStr,
    pub(super) tables: SqlStr,
    pub(super) has_created_at: SqlStr,
    pub(super) add_created_at: SqlStr,
    pub(super) version: SqlStr,
    pub(super) load: SqlStr,
    pub(super) save: Save,
    pub(super) finish: SqlStr,
    /// Finishes with what was published.
    pub(super) finish_publishing: SqlStr,
    /// Finishes with the mark of a stream, and what was published, if anything.
    pub(super) finish_moving: SqlStr,
    pub(super) end_recorded: SqlStr,
    pub(super) commit_recorded: SqlStr,
    pub(super) remove_recorded: SqlStr,
    pub(super) purge: SqlStr,
    pub(super) floor: SqlStr,
    pub(super) raise_floor: SqlStr,
    pub(super) load_session: SqlStr,
    pub(super) save_session: SqlStr,
    pub(super) remove_answers: SqlStr,
    pub(super) keep_records: SqlStr,
    pub(super) expire: SqlStr,
    pub(super) sequences: sequences::Statements,
    pub(super) operator: operator::Statements,
    pub(super) outbox: outbox::Statements,
    pub(super) streams: streams::Statements,
}

/// Writes several records with one statement.
pub(super) struct Save(Vec<(usize, SqlStr)>);

impl Save {
    /// How many a statement may write, most first; the driver keeps each of them prepared.
    const SIZES: [usize; 4] = [64, 16, 4, 1];

    fn new(sql: impl Fn(&str) -> SqlStr) -> Self {
        let one = include_str!("save.sql");
        let (_, row) = one.rsplit_once("VALUES ").expect("there is a row");
        let rows = |further: usize| format!("{one}{}", format!(", {row}").repeat(further));
        let of = |size| (size, sql(&rows(size - 1)));
        Self(Self::SIZES.map(of).into())
    }

    /// How many of so many, at least one, the largest statement writes that needs no more.
    pub(super) fn fitting(records: usize) -> usize {
        let mut sizes = Self::SIZES.into_iter();
        sizes.find(|size| *size <= records).unwrap_or(1)
    }

    /// The statement for a number of records that `fitting` has told.
    pub(super) fn of(&self, records: usize) -> SqlStr {
        let statement = self.0.iter().find(|(size, _)| *size == records);
        statement.expect("it is one of the sizes").1.clone()
    }
}

impl Sql {
    pub(super) fn new(table: &str) -> Result<Self, ConnectError> {
        if !is_table(table) {
            return Err(ConnectError::InvalidTable {
                table: table.to_owned(),
            });
        }
        // A checked name has no character that could end the identifier it stands in.
        let sql = |file: &str| {
            AssertSqlSafe(file.replace(DEFAULT_TABLE, table))
                .into_sql_str()
                .clone()
        };
        // Of what finishes, the first parameter is another.
        let sent = include_str!("outbox/send.sql").replace("?1", "?3");
        let moved = include_str!("streams/move.sql").replace("?1", "?4");
        let finish = |moved: &str, sent: &str| {
            let text = include_str!("finish.sql").replace("{moved}", moved);
            sql(&text.replace("{sent}", sent))
        };
        Ok(Self {
            schema: sql(include_str!("schema.sql")),
            tables: sql(include_str!("tables.sql")),
            has_created_at: sql(include_str!("has_created_at.sql")),
            add_created_at: sql(include_str!("add_created_at.sql")),
            version: sql(include_str!("version.sql")),
            load: sql(include_str!("load.sql")),
            save: Save::new(sql),
            finish: finish("", ""),
            finish_publishing: finish("", &sent),
            finish_moving: finish(&moved, &sent),
            end_recorded: sql(include_str!("recorded_by/end.sql")),
            commit_recorded: sql(include_str!("recorded_by/commit.sql")),
            remove_recorded: sql(include_str!("recorded_by/remove.sql")),
            purge: sql(include_str!("purge.sql")),
            floor: sql(include_str!("floor.sql")),
            raise_floor: sql(include_str!("raise_floor.sql")),
            load_session: sql(include_str!("load_session.sql")),
            save_session: sql(include_str!("save_session.sql")),
            remove_answers: sql(include_str!("remove_answers.sql")),
            keep_records: sql(include_str!("keep_records.sql")),
            expire: sql(include_str!("expire.sql")),
            sequences: sequences::Statements::new(sql),
            operator: operator::Statements::new(sql),
            outbox: outbox::Statements::new(sql),
            streams: streams::Statements::new(sql),
        })
    }
}

/// Whether it can name tables in every database, with room for what is appended to it.
fn is_table(name: &str) -> bool {
    let mut bytes = name.bytes();
    let reserved = name
        .get(..7)
        .is_some_and(|head| head.eq_ignore_ascii_case("sqlite_"));
    name.len() <= 48
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
    fn a_table_has_a_plain_name() {
        for good in ["idem_records", "_x", "T2", "sqlitefoo"] {
            assert!(is_table(good), "{good}");
        }
        let long = "x".repeat(49);
        for bad in [
            "", "2t", "a b", "a\"b", "a;b", "é", "a.b", "SQLite_x", &long,
        ] {
            assert!(!is_table(bad), "{bad}");
        }
    }
}
