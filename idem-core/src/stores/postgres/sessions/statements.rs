//! The statements about sessions, with the names of the schema and the table put in.

use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection, SqlStr};

use super::{Names, lock_wait};
use crate::random;

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

    /// Fails unless the tables answer as this version's do, and this role may use them. Nothing
    /// stays of it.
    pub(super) async fn check(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let mut transaction = connection.begin_with(self.begin.clone()).await?;
        // Another store may be creating tables, and this one waits as long as for any answer.
        transaction.execute("SET LOCAL lock_timeout = 0").await?;
        // Nobody else's: stores that start at once must not wait for each other's row.
        let key = format!("idem~{}", random::name());
        let statements = [
            sqlx::query(self.lock.clone()).bind(key.clone()).bind(0_i64),
            sqlx::query(self.save.clone())
                .bind(key.clone())
                .bind(0_i64)
                .bind(0_i64)
                .bind(0_i64)
                .bind(0_i64),
            sqlx::query(self.keep.clone())
                .bind(key.clone())
                .bind(0_i64)
                .bind(0_i64)
                .bind(0_i64)
                .bind(0_i64),
            sqlx::query(self.open.clone())
                .bind(0_i64)
                .bind(key)
                .bind(1_i64)
                .bind(0_i64),
            sqlx::query(self.expire.clone()).bind(0_i64).bind(0_i64),
        ];
        for statement in statements {
            transaction.execute(statement).await?;
        }
        transaction.rollback().await
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
