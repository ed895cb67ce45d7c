//! The statements about sequences: the SQL stands in files, and `stores/sqlite/sequences.rs` sends it, in the writer's
//! transaction. Numbers and times are integers there; the key of a record is that of its sequence with `~` and the
//! number.

use sqlx::SqlStr;

/// The statements about sequences, with the table's name put in.
pub(in crate::stores::sqlite) struct Statements {
    pub(in crate::stores::sqlite) load: SqlStr,
    /// Writes a sequence, a new one too.
    pub(in crate::stores::sqlite) save: SqlStr,
    /// How numbers stand that have records.
    pub(in crate::stores::sqlite) standings: SqlStr,
    /// Removes the records that the mark has passed, and tells their tokens.
    pub(in crate::stores::sqlite) remove_records: SqlStr,
    /// Lists numbers that the mark has passed though they are not done.
    pub(in crate::stores::sqlite) add_exceptions: SqlStr,
    pub(in crate::stores::sqlite) is_exception: SqlStr,
    pub(in crate::stores::sqlite) remove_exceptions: SqlStr,
    /// Keeps records for as long as their sequence.
    pub(in crate::stores::sqlite) keep: SqlStr,
    /// Sent before a purge: expired sequences begin at their mark.
    pub(in crate::stores::sqlite) settle: SqlStr,
    /// Removes exceptions of sequences that are settled, and then sequences that have none left.
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
