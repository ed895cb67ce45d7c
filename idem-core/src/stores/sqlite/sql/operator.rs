//! The statements about what an operator sees.

use sqlx::SqlStr;

pub(in crate::stores::sqlite) struct Statements {
    pub(in crate::stores::sqlite) list: SqlStr,
    pub(in crate::stores::sqlite) show: SqlStr,
    pub(in crate::stores::sqlite) counts: SqlStr,
    pub(in crate::stores::sqlite) has_audit: SqlStr,
    pub(in crate::stores::sqlite) is_noted: SqlStr,
    pub(in crate::stores::sqlite) note: SqlStr,
    pub(in crate::stores::sqlite) audit: SqlStr,
    pub(in crate::stores::sqlite) remove: SqlStr,
    pub(in crate::stores::sqlite) purge: SqlStr,
    pub(in crate::stores::sqlite) unpurged: SqlStr,
}

impl Statements {
    pub(super) fn new(sql: impl Fn(&str) -> SqlStr) -> Self {
        Self {
            list: sql(include_str!("../operator/list.sql")),
            show: sql(include_str!("../operator/show.sql")),
            counts: sql(include_str!("../operator/counts.sql")),
            has_audit: sql(include_str!("../operator/has_audit.sql")),
            is_noted: sql(include_str!("../operator/is_noted.sql")),
            note: sql(include_str!("../operator/note.sql")),
            audit: sql(include_str!("../operator/audit.sql")),
            remove: sql(include_str!("../operator/remove.sql")),
            purge: sql(include_str!("../operator/purge.sql")),
            unpurged: sql(include_str!("../unpurged.sql")),
        }
    }
}
