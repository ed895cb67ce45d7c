//! A service whose process dies between its effect in a database and the record of that. Only `idem-http` claims to
//! survive it.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio, abort},
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use idem_core::{
    Policy, SqliteStore,
    sqlx::{self, Connection as _, SqliteConnection},
};
use idem_http::{IdempotencyLayer, Tx};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

use crate::{Result, client::Charge, peer::LEASE};

const CREATE: &str = "CREATE TABLE IF NOT EXISTS charges (order_id text NOT NULL)";

/// Serves on a SQLite file, and writes to a file beside it where; `dies` in its first handler, after its effect.
pub(crate) async fn serve(file: &str, dies: bool) -> Result<()> {
    let store = SqliteStore::connect(&format!("sqlite:{file}")).await?;
    let policy = Policy::builder().lease(LEASE).build()?;
    let once = IdempotencyLayer::new(store).unscoped().policy(policy);
    let charges = Router::new().route("/charges", post(charge));
    let router = charges.layer(once.atomic::<SqliteConnection>());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let told = format!("{file}.address");
    std::fs::write(format!("{told}.new"), address)?;
    std::fs::rename(format!("{told}.new"), told)?;
    Ok(axum::serve(listener, router.with_state(dies)).await?)
}

async fn charge(State(dies): State<bool>, Tx(mut db): Tx<SqliteConnection>) -> StatusCode {
    let insert = sqlx::query("INSERT INTO charges VALUES ('o-1')");
    insert.execute(db.as_mut()).await.expect("it is written");
    if dies {
        abort();
    }
    StatusCode::CREATED
}

/// What became of a charge whose service has died, and was started again.
pub(crate) async fn doubles_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("orders.db");
    let charge = Charge::new("").key("k-1");
    {
        let url = format!("sqlite:{}?mode=rwc", file.display());
        let mut db = SqliteConnection::connect(&url).await?;
        sqlx::raw_sql(CREATE).execute(&mut db).await?;
    }
    let first = Program::start(&file, true).await?;
    if let Ok(answer) = charge.send(first.address).await {
        return Err(format!("it did not die: {answer:?}").into());
    }
    drop(first);
    let second = Program::start(&file, false).await?;
    let answer = charge.send(second.address).await?;
    let mut db = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await?;
    let charges: i64 = sqlx::query_scalar("SELECT count(*) FROM charges")
        .fetch_one(&mut db)
        .await?;
    match (answer.status, charges) {
        (201, 1) => Ok(()),
        other => Err(format!("the retry's answer, and the charges: {other:?}").into()),
    }
}

/// This program again, as a service.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    async fn start(file: &Path, dies: bool) -> Result<Self> {
        let told = format!("{}.address", file.display());
        let _ = std::fs::remove_file(&told);
        let mut program = Command::new(std::env::current_exe()?);
        program.arg("serve").arg(file).stderr(Stdio::null());
        if dies {
            program.arg("--dies");
        }
        let child = program.spawn()?;
        let limit = Instant::now() + Duration::from_mins(1);
        loop {
            if let Ok(address) = std::fs::read_to_string(&told) {
                let address = address.parse()?;
                return Ok(Self { child, address });
            }
            if Instant::now() > limit {
                return Err("the service does not start".into());
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have died by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
