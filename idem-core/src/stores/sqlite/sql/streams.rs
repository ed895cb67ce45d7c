//! The statements about streams.

use sqlx::SqlStr;

pub(in crate::stores::sqlite) struct Statements {
    pub(in crate::stores::sqlite) load: SqlStr,
    pub(in crate::stores::sqlite) save: SqlStr,
}

impl Statements {
    pub(super) fn new(sql: impl Fn(&str) -> SqlStr) -> Self {
        Self {
            load: sql(include_str!("../streams/load.sql")),
            save: sql(include_str!("../streams/save.sql")),
        }
    }
}
