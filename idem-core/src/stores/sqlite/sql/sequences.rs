//! The statements about sequences.

use sqlx::SqlStr;

/// The statements about sequences, with the table's name put in.
pub(in crate::stores::sqlite) struct Statements {
    pub(in crate::stores::sqlite) load: SqlStr,
    pub(in crate::stores::sqlite) save: SqlStr,
    pub(in crate::stores::sqlite) standings: SqlStr,
    pub(in crate::stores::sqlite) remove_records: SqlStr,
    pub(in crate::stores::sqlite) add_exceptions: SqlStr,
    pub(in crate::stores::sqlite) is_exception: SqlStr,
    pub(in crate::stores::sqlite) remove_exceptions: SqlStr,
    pub(in crate::stores::sqlite) keep: SqlStr,
    pub(in crate::stores::sqlite) settle: SqlStr,
    pub(in crate::stores::sqlite) purge_exceptions: SqlStr,
    pub(in crate::stores::sqlite) purge: SqlStr,
}

impl Statements {
    pub(super) fn new(sql: impl Fn(&str) -> SqlStr) -> Self {
        Self {
            load: sql(include_str!("../sequences/load.sql")),
            save: sql(include_str!("../sequences/save.sql")),
            standings: sql(include_str!("../sequences/standings.sql")),
            remove_records: sql(include_str!("../sequences/remove_records.sql")),
            add_exceptions: sql(include_str!("../sequences/add_exceptions.sql")),
            is_exception: sql(include_str!("../sequences/is_exception.sql")),
            remove_exceptions: sql(include_str!("../sequences/remove_exceptions.sql")),
            keep: sql(include_str!("../sequences/keep.sql")),
            settle: sql(include_str!("../sequences/settle.sql")),
            purge_exceptions: sql(include_str!("../sequences/purge_exceptions.sql")),
            purge: sql(include_str!("../sequences/purge.sql")),
        }
    }
}
