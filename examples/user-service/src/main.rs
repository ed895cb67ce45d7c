//! A service that reads and updates users by request over RabbitMQ. An update is made once, however often it is asked
//! for: also if the service dies in the middle of it, and if the client has lost the reply.
//!
//! ```sh
//! AMQP_URL=amqp://127.0.0.1:5672/%2f cargo run -p user-service
//! ```
//!
//! This program is the client. It starts the service as a process of its own, which kills itself in its first update.

use std::{
    env,
    path::Path,
    process::{ExitStatus, Stdio},
};

use idem_amqp::{
    Client, Refused, Request, SqliteStore,
    client::CallError,
    prelude::*,
    sqlx::{self, SqliteConnection, SqlitePool},
};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

type Error = Box<dyn std::error::Error + Send + Sync>;

const READS: &str = "example.users.read";
const UPDATES: &str = "example.users.update";

#[derive(Serialize, Deserialize)]
struct GetUser {
    id: String,
}

#[derive(Serialize, Deserialize)]
struct SetEmail {
    id: String,
    email: String,
}

/// What both requests are answered with.
#[derive(Debug, Serialize, Deserialize)]
struct User {
    email: String,
    version: i64,
}

impl User {
    fn of_row((email, version): (String, i64)) -> Self {
        Self { email, version }
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum UserError {
    NotFound,
}

impl Request for GetUser {
    type Reply = User;
    type Error = UserError;
}

impl Request for SetEmail {
    type Reply = User;
    type Error = UserError;
}

/// Reading changes nothing, and is to tell what is so now: it needs no key, and nothing is remembered.
#[idempotent(enforcement = "plain", scope = "users.get")]
async fn read(asked: GetUser, State(users): State<SqlitePool>) -> Result<User, Refused<UserError>> {
    let user = sqlx::query_as("SELECT email, version FROM users WHERE id = ?");
    let user = user.bind(asked.id).fetch_optional(&users).await?;
    user.map(User::of_row)
        .ok_or(Refused::with(UserError::NotFound))
}

/// Not idempotent by itself: each run makes another version. The new row, the record of the request and the reply
/// commit together.
// The scope is durable: it stands in every key. The lease is what another process waits for when this one has died.
#[idempotent(key = message_id(), scope = "users.set-email", lease = "1s")]
async fn set_email(
    asked: SetEmail,
    attempt: Attempt,
    db: &mut SqliteConnection,
) -> Result<User, Refused<UserError>> {
    let user =
        "UPDATE users SET email = ?, version = version + 1 WHERE id = ? RETURNING email, version";
    let user = sqlx::query_as(user)
        .bind(asked.email)
        .bind(asked.id)
        .fetch_optional(db)
        .await?;
    let user = user
        .map(User::of_row)
        .ok_or(Refused::with(UserError::NotFound))?;
    if user.version == 2 && attempt.number() == 1 {
        println!("  (the service has written version 2, and dies before the commit)");
        std::process::abort();
    }
    Ok(user)
}

async fn serve(file: &Path) -> Result<(), Error> {
    let users = SqlitePool::connect(&format!("sqlite:{}", file.display())).await?;
    Worker::builder(SqliteStore::connect(file).await?)
        .state(users)
        .consume::<read>(READS)
        .consume::<set_email>(UPDATES)
        .run_until(amqp_url(), shutdown_signal())
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    match env::args().nth(1) {
        Some(file) => serve(Path::new(&file)).await,
        None => ask().await,
    }
}

async fn ask() -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("users.db");
    let tables = SqlitePool::connect(&format!("sqlite:{}?mode=rwc", file.display())).await?;
    let users =
        "CREATE TABLE users (id TEXT PRIMARY KEY, email TEXT NOT NULL, version INTEGER NOT NULL);
        INSERT INTO users VALUES ('ada', 'ada@old.example', 1)";
    sqlx::raw_sql(users).execute(&tables).await?;
    tables.close().await;
    let publisher = Publisher::connect(amqp_url()).await?;
    for queue in [READS, UPDATES] {
        publisher.declare(queue).await?;
    }

    let mut service = start(&file)?;
    let client = Client::connect(amqp_url(), UPDATES).await?;
    look(&client, "ada").await?;

    // The key names the update. A client that may crash keeps it, with the request, until it has the reply.
    let key = "ada-moves";
    let update = SetEmail {
        id: "ada".to_owned(),
        email: "ada@new.example".to_owned(),
    };
    println!("update ada");
    let first = client.call(&update).key(key).into_future();
    let replaced = async {
        println!("  ({})", ended(service.wait().await?));
        service = start(&file)?;
        Ok::<_, Error>(())
    };
    let (first, replaced) = tokio::join!(first, replaced);
    replaced?;
    print(&first?.reply, false);

    println!("update ada, says a client that has lost the reply");
    let again = Client::connect(amqp_url(), UPDATES).await?;
    let again = again.call(&update).key(key).await?;
    print(&again.reply, again.replayed);

    service.kill().await?;
    service = start(&file)?;
    println!("update ada, says one that asks another process of the service");
    let again = client.call(&update).key(key).await?;
    print(&again.reply, again.replayed);

    look(&client, "ada").await?;
    look(&client, "bob").await?;
    service.kill().await?;
    Ok(())
}

async fn look(client: &Client, id: &str) -> Result<(), Error> {
    println!("read {id}");
    let asked = GetUser { id: id.to_owned() };
    match client.to(READS).call(&asked).await {
        Ok(user) => print(&user.reply, user.replayed),
        Err(CallError::Refused(UserError::NotFound)) => println!("  there is no {id}"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn print(user: &User, replayed: bool) {
    let replayed = if replayed { ", a replayed reply" } else { "" };
    println!("  {}, version {}{replayed}", user.email, user.version);
}

fn start(file: &Path) -> Result<Child, Error> {
    let mut service = Command::new(env::current_exe()?);
    service.arg(file).stdin(Stdio::null()).kill_on_drop(true);
    Ok(service.spawn()?)
}

fn ended(status: ExitStatus) -> &'static str {
    if status.success() {
        "the service has ended"
    } else {
        "the service was killed: another one takes its place"
    }
}

fn amqp_url() -> String {
    env::var("AMQP_URL").unwrap_or_else(|_| "amqp://127.0.0.1:5672/%2f".to_owned())
}
