//! The statements, with the names of the schema and the table put in.

use sqlx::SqlStr;

use super::names::Names;

pub(super) struct Sql {
    pub(super) claim: SqlStr,
    pub(super) write: SqlStr,
    pub(super) purge: SqlStr,
}

impl Sql {
    pub(super) fn new(names: &Names) -> Self {
        Self {
            claim: names.put_into(include_str!("claim.sql")),
            write: names.put_into(include_str!("write.sql")),
            purge: names.put_into(include_str!("purge.sql")),
        }
    }
}
