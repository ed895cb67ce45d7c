//! The statements about streams.

use sqlx::SqlStr;

pub(in crate::stores::sqlite) struct Statements {
    pub(in crate::stores::sqlite) load: SqlStr,
    pub(in crate::stores::sqlite) save: SqlStr,
    pub(in crate::stores::sqlite) list: SqlStr,
    /// Ends a handler's transaction with what was published, if anything, and the mark.
    pub(in crate::stores::sqlite) finish: SqlStr,
}

impl Statements {
    pub(super) fn new(sql: impl Fn(&str) -> SqlStr) -> Self {
        // Of what finishes, the first parameter is the mark.
        let sent = include_str!("../outbox/send.sql").replace("?1", "?3");
        let finish = include_str!("../streams/finish.sql")
            .replace("{moved}", include_str!("../streams/move.sql"))
            .replace("{sent}", &sent);
        Self {
            finish: sql(&finish),
            load: sql(include_str!("../streams/load.sql")),
            save: sql(include_str!("../streams/save.sql")),
            list: sql(include_str!("../streams/list.sql")),
        }
    }
}
