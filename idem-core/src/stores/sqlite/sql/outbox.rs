//! The statements about what handlers have published.

use sqlx::SqlStr;

pub(in crate::stores::sqlite) struct Statements {
    pub(in crate::stores::sqlite) send: SqlStr,
    pub(in crate::stores::sqlite) take: SqlStr,
    pub(in crate::stores::sqlite) remove: SqlStr,
    pub(in crate::stores::sqlite) note: SqlStr,
    pub(in crate::stores::sqlite) counts: SqlStr,
    pub(in crate::stores::sqlite) glance: SqlStr,
    pub(in crate::stores::sqlite) troubled: SqlStr,
    pub(in crate::stores::sqlite) entries: SqlStr,
    pub(in crate::stores::sqlite) retry: SqlStr,
    pub(in crate::stores::sqlite) discard: SqlStr,
    pub(in crate::stores::sqlite) redirect: SqlStr,
    pub(in crate::stores::sqlite) cancel: SqlStr,
}

impl Statements {
    pub(super) fn new(sql: impl Fn(&str) -> SqlStr) -> Self {
        Self {
            send: sql(include_str!("../outbox/send.sql")),
            take: sql(include_str!("../outbox/take.sql")),
            remove: sql(include_str!("../outbox/remove.sql")),
            note: sql(include_str!("../outbox/note.sql")),
            counts: sql(include_str!("../outbox/counts.sql")),
            glance: sql(include_str!("../outbox/glance.sql")),
            troubled: sql(include_str!("../outbox/troubled.sql")),
            entries: sql(include_str!("../outbox/entries.sql")),
            retry: sql(include_str!("../outbox/retry.sql")),
            discard: sql(include_str!("../outbox/discard.sql")),
            redirect: sql(include_str!("../outbox/redirect.sql")),
            cancel: sql(include_str!("../outbox/cancel.sql")),
        }
    }
}
