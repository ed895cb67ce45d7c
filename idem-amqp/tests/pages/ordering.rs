//! What `docs/ordering.md` shows.

use idem_amqp::{Queue, prelude::*, sqlx::{self, PgConnection}};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Posting { account: String, number: u32, cents: i64 }

// The scope is durable: it stands in every key.
#[idempotent(key = ["account", "number"], ordered_by = "account", scope = "books.post")]
async fn post(posting: Posting, db: &mut PgConnection) -> Result<(), Failed> {
    sqlx::query("UPDATE accounts SET cents = cents + $1 WHERE name = $2")
        .bind(posting.cents).bind(posting.account).execute(db).await?;
    Ok(())
}

fn queues() {
let queue = Queue::quorum("postings.1").bind("postings", "1");
    drop(queue);
}
