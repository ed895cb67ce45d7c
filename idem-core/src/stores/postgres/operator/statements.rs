//! The statements of operators, with the names of the schema and the table put in.

use sqlx::{PgConnection, SqlStr};

use crate::stores::postgres::Names;

pub(super) struct Statements {
    pub(super) list: SqlStr,
    pub(super) show: SqlStr,
    pub(super) counts: SqlStr,
    pub(super) begin: SqlStr,
    has_audit: SqlStr,
    pub(super) is_noted: SqlStr,
    pub(super) lock: SqlStr,
    pub(super) remove: SqlStr,
    pub(super) write: SqlStr,
    pub(super) note: SqlStr,
    pub(super) audit: SqlStr,
}

impl Statements {
    /// `lock_wait` is how long a locked row is waited for, in milliseconds.
    pub(super) fn new(names: &Names, lock_wait: &str) -> Self {
        let begin = include_str!("begin.sql").replace("{lock_timeout}", lock_wait);
        Self {
            list: names.put_into(include_str!("list.sql")),
            show: names.put_into(include_str!("show.sql")),
            counts: names.put_into(include_str!("counts.sql")),
            begin: names.put_into(&begin),
            has_audit: names.put_into(include_str!("has_audit.sql")),
            is_noted: names.put_into(include_str!("is_noted.sql")),
            lock: names.put_into(include_str!("lock.sql")),
            remove: names.put_into(include_str!("remove.sql")),
            write: names.put_into(include_str!("write.sql")),
            note: names.put_into(include_str!("note.sql")),
            audit: names.put_into(include_str!("audit.sql")),
        }
    }

    /// Tables of an earlier version of the program lack it.
    pub(super) async fn has_audit(
        &self,
        connection: &mut PgConnection,
    ) -> Result<bool, sqlx::Error> {
        let there = sqlx::query_scalar(self.has_audit.clone());
        there.fetch_one(connection).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left() {
        let names = Names::new(Some("shop"), "dedup").unwrap();
        let sql = Statements::new(&names, "1000");
        let all = [
            &sql.list,
            &sql.show,
            &sql.counts,
            &sql.begin,
            &sql.has_audit,
            &sql.is_noted,
            &sql.lock,
            &sql.remove,
            &sql.write,
            &sql.note,
            &sql.audit,
        ];
        for text in all {
            assert!(!text.as_str().contains(['{', '}']), "{}", text.as_str());
            assert!(!text.as_str().contains("idem_records"), "{}", text.as_str());
        }
    }
}
