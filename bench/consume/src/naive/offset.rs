//! The place in a stream beside the rows of business: what comes again is passed before it is handled.

use bench_orders::{Order, Tally};
use idem_amqp::sqlx::{self, Connection as _, PgConnection};

use super::HandleTogether;
use crate::{Result, charges};

/// One statement charges all, another one says where to go on from; both are committed together.
#[derive(Debug)]
pub(crate) struct Offset {
    connection: PgConnection,
    /// Where the last orders began.
    from: i64,
    /// Where the next ones begin.
    next: i64,
}

impl Offset {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        sqlx::raw_sql(
            "CREATE TABLE offsets (stream text PRIMARY KEY, next bigint NOT NULL);
             INSERT INTO offsets VALUES ('bench', 0)",
        )
        .execute(&mut connection)
        .await?;
        Ok(Self {
            connection,
            from: 0,
            next: 0,
        })
    }
}

impl HandleTogether for Offset {
    async fn handle(&mut self, orders: &[Order], tally: &Tally) -> Result<Vec<usize>> {
        let mut transaction = self.connection.begin().await?;
        charges::charge_all(&mut transaction, orders.iter()).await?;
        tally.work().await;
        let moved =
            sqlx::query("UPDATE offsets SET next = $1 WHERE stream = 'bench' AND next = $2")
                .bind(self.next)
                .bind(self.from)
                .execute(&mut *transaction)
                .await?;
        if moved.rows_affected() != 1 {
            return Err("somebody else has moved the offset".into());
        }
        transaction.commit().await?;
        self.from = self.next;
        for order in orders {
            tally.execute(order);
        }
        Ok(Vec::new())
    }

    fn reach(&mut self, offset: i64) {
        self.next = offset + 1;
    }
}
