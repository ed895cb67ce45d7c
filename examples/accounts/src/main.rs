//! Accounts: one is opened once, and debited once for each order, however often the messages come, and even after idem
//! has forgotten them: each row holds the id of the message that it was written for.
//!
//! What a handler writes commits with the record of its message in one SQLite database, or is rolled back.
//!
//! ```sh
//! AMQP_URL=amqp://127.0.0.1:5672/%2f cargo run -p accounts
//! ```

use std::{env, time::Duration};

use idem_amqp::{
    Publication, SqliteStore,
    prelude::*,
    sqlx::{self, Connection as _, SqliteConnection},
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::sleep,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

const OPENINGS: &str = "example.accounts.openings";
const DEBITS: &str = "example.accounts.debits";

const TABLES: &str = "
    CREATE TABLE accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL, opening TEXT UNIQUE NOT NULL);
    CREATE TABLE debits (order_id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts, cents INTEGER NOT NULL)";

#[derive(Serialize, Deserialize)]
struct AccountOpened {
    opening_id: String,
    account: String,
    cents: i64,
}

#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order_id: String,
    account: String,
    cents: i64,
}

/// The id stands in the row that is created.
// The scope is durable: it stands in every key.
#[idempotent(
    key = "opening_id",
    scope = "accounts.open",
    lease = "1s",
    retention = "1s"
)]
async fn open(opened: AccountOpened, db: &mut SqliteConnection) -> Result<(), Failed> {
    let row = "INSERT INTO accounts (name, cents, opening) VALUES (?, ?, ?) ON CONFLICT (opening) DO NOTHING";
    let row = sqlx::query(row)
        .bind(&opened.account)
        .bind(opened.cents)
        .bind(opened.opening_id);
    if row.execute(db).await?.rows_affected() == 0 {
        return Err(Failed::done_before());
    }
    println!("opened {} with {} cents", opened.account, opened.cents);
    Ok(())
}

/// The id stands beside the row that is updated: one row could only tell of its last order.
// Remembered for a second, so that this example need not run for days.
#[idempotent(
    key = "order_id",
    scope = "accounts.debit",
    lease = "1s",
    retention = "1s"
)]
async fn debit(
    order: OrderPlaced,
    db: &mut SqliteConnection,
    attempt: Attempt,
) -> Result<(), Failed> {
    let row =
        "INSERT INTO debits (order_id, account, cents) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    let row = sqlx::query(row)
        .bind(&order.order_id)
        .bind(&order.account)
        .bind(order.cents);
    if row.execute(&mut *db).await?.rows_affected() == 0 {
        return Err(Failed::done_before());
    }
    sqlx::query("UPDATE accounts SET cents = cents - ? WHERE name = ?")
        .bind(order.cents)
        .bind(&order.account)
        .execute(db)
        .await?;
    if order.order_id == "o-2" && attempt.number() == 1 {
        return Err(Failed::retry("the statement could not be printed"));
    }
    println!(
        "debited {} for {} at attempt {}",
        order.cents,
        order.order_id,
        attempt.number()
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let amqp_url = env::var("AMQP_URL").unwrap_or_else(|_| "amqp://127.0.0.1:5672/%2f".to_owned());
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bank.db");
    let store = SqliteStore::connect(&file).await?;
    let mut bank = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await?;
    sqlx::raw_sql(TABLES).execute(&mut bank).await?;
    let publisher = Publisher::connect(&amqp_url).await?;
    for queue in [OPENINGS, DEBITS] {
        publisher.declare(queue).await?;
    }

    let (told, settled) = unbounded_channel();
    let publishing = tokio::spawn(publish(publisher, settled));
    let balance = Worker::builder(store)
        .consume::<open>(Queue::quorum(OPENINGS).prefetch(1))
        .consume::<debit>(Queue::quorum(DEBITS).prefetch(1))
        .on_settled(move |_| {
            let _ = told.send(());
        })
        .run_until(amqp_url, async {
            if let Ok(Err(error)) = publishing.await {
                eprintln!("accounts: {error}");
            }
        })
        .await?;
    println!("{balance}");

    let accounts: Vec<(String, i64)> = sqlx::query_as("SELECT name, cents FROM accounts")
        .fetch_all(&mut bank)
        .await?;
    for (name, cents) in accounts {
        println!("{name}: {cents} cents");
    }
    Ok(())
}

/// Every message twice, and once more when idem has forgotten it.
async fn publish(publisher: Publisher, mut settled: UnboundedReceiver<()>) -> Result<(), Error> {
    let opened = AccountOpened {
        opening_id: "m-1".to_owned(),
        account: "ada".to_owned(),
        cents: 10_000,
    };
    let opened = Publication::json(OPENINGS, &opened);
    let order = |order_id: &str, cents| {
        let order = OrderPlaced {
            order_id: order_id.to_owned(),
            account: "ada".to_owned(),
            cents,
        };
        Publication::json(DEBITS, &order)
    };
    let (first, second) = (order("o-1", 1299), order("o-2", 4900));

    // The second order comes back for another attempt. Then a copy of each.
    for (publication, deliveries) in [(&opened, 1), (&first, 1), (&second, 2)] {
        for deliveries in [deliveries, 1] {
            publisher.publish(publication).await?;
            for _ in 0..deliveries {
                settled.recv().await;
            }
        }
    }
    sleep(Duration::from_millis(1100)).await;
    println!("a while later");
    for publication in [&opened, &first, &second] {
        publisher.publish(publication).await?;
        settled.recv().await;
    }
    Ok(())
}
