//! The statements, with the names of the schema and the table put in.

use sqlx::SqlStr;

use super::names::Names;

pub(super) struct Sql {
    pub(super) claim: SqlStr,
    pub(super) write: SqlStr,
    pub(super) purge: SqlStr,
    pub(super) extend_open: SqlStr,
    pub(super) may_complete: SqlStr,
    /// With placeholders for one completion.
    pub(super) commit: SqlStr,
}

impl Sql {
    pub(super) fn new(names: &Names) -> Self {
        Self {
            claim: names.put_into(include_str!("claim.sql")),
            write: names.put_into(include_str!("write.sql")),
            purge: names.put_into(include_str!("purge.sql")),
            extend_open: names.put_into(include_str!("atomic/extend_open.sql")),
            may_complete: names.put_into(include_str!("atomic/may_complete.sql")),
            commit: names.put_into(concat!(
                include_str!("atomic/commit.sql"),
                include_str!("atomic/reset.sql")
            )),
        }
    }
}
