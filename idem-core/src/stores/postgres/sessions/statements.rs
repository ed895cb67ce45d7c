//! The statements about sessions, with the names of the schema and the table put in.

use std::time::Duration;

use sqlx::{PgConnection, SqlStr};

use super::{Names, lock_wait};
use crate::{random, stores::postgres::check};

pub(super) struct Statements {
    pub(super) begin: SqlStr,
    pub(super) lock: SqlStr,
    pub(super) save: SqlStr,
    pub(super) keep: SqlStr,
    pub(super) open: SqlStr,
    pub(super) expire: SqlStr,
}

impl Statements {
    pub(super) fn new(names: &Names, response_timeout: Duration) -> Self {
        let begin =
            include_str!("begin.sql").replace("{lock_timeout}", &lock_wait(response_timeout));
        Self {
            begin: names.put_into(&begin),
            lock: names.put_into(include_str!("lock.sql")),
            save: names.put_into(include_str!("save.sql")),
            keep: names.put_into(include_str!("keep.sql")),
            open: names.put_into(include_str!("open.sql")),
            expire: names.put_into(include_str!("expire.sql")),
        }
    }

    /// Fails unless the tables answer as this version's do, and this role may use them.
    pub(super) async fn check(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        // Nobody else's: stores that start at once must not wait for each other's row.
        let key = format!("idem~{}", random::name());
        let of_key = |sql: &SqlStr| {
            let query = sqlx::query(sql.clone()).bind(key.clone());
            (0..4).fold(query, |query, _| query.bind(0_i64))
        };
        let statements = vec![
            sqlx::query(self.lock.clone()).bind(key.clone()).bind(0_i64),
            of_key(&self.save),
            of_key(&self.keep),
            sqlx::query(self.open.clone())
                .bind(0_i64)
                .bind(key.clone())
                .bind(1_i64)
                .bind(0_i64),
            sqlx::query(self.expire.clone()).bind(0_i64).bind(0_i64),
        ];
        check::rehearse(connection, &self.begin, statements).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left() {
        let names = Names::new(Some("shop"), "dedup").unwrap();
        let sql = Statements::new(&names, Duration::from_secs(10));
        for text in [
            &sql.begin,
            &sql.lock,
            &sql.save,
            &sql.keep,
            &sql.open,
            &sql.expire,
        ] {
            assert!(!text.as_str().contains(['{', '}']), "{}", text.as_str());
        }
        assert!(sql.begin.as_str().contains("lock_timeout = 1000;"));
    }
}
