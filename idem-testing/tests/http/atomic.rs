//! Atomic handlers, on SQLite.

use axum::{Router, routing::post};
use idem_core::sqlx::{self, SqliteConnection};
use idem_http::{IdempotencyLayer, Tx};
use idem_testing::http::{CrashPoint, Harness, OnSqlite, Setup, assert_idempotent};

use super::*;

const SCHEMA: &str = "CREATE TABLE charges (id INTEGER PRIMARY KEY, order_id TEXT, cents INTEGER)";

async fn charge_in_transaction(
    Tx(mut db): Tx<SqliteConnection>,
    Json(order): Json<Order>,
) -> (StatusCode, Json<Value>) {
    let id: i64 =
        sqlx::query_scalar("INSERT INTO charges (order_id, cents) VALUES (?, ?) RETURNING id")
            .bind(order.id)
            .bind(order.cents)
            .fetch_one(db.as_mut())
            .await
            .unwrap();
    (StatusCode::CREATED, Json(json!({ "id": id })))
}

async fn shop() -> Harness<(), OnSqlite> {
    let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
    setup.service(|store, ()| {
        let once = IdempotencyLayer::new(store).unscoped();
        let once = once.atomic::<SqliteConnection>();
        Router::new()
            .route("/charges", post(charge_in_transaction))
            .layer(once)
    })
}

async fn charges<St>(run: &Harness<St, OnSqlite>) -> Vec<(String, i64)> {
    sqlx::query_as("SELECT order_id, cents FROM charges")
        .fetch_all(&mut *run.database().await)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_atomic_handler_passes_at_every_point() {
    assert_idempotent(&shop().await, &order("k-1", "o-17"), charges).await;
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_process_that_vanishes_are_rolled_back() {
    let order = order("k-1", "o-17");
    for point in [CrashPoint::InHandler(1), CrashPoint::BeforeCompletion] {
        let shop = shop().await;
        shop.crash(point, &order).await;
        assert!(charges(&shop).await.is_empty(), "{point}");
        let answer = shop.send_until_done(&order).await;
        assert_eq!(answer.json(), json!({ "id": 1 }), "{point}");
        assert_eq!(charges(&shop).await, [("o-17".to_owned(), 1250)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_was_committed_is_told_after_a_crash() {
    let (shop, order) = (shop().await, order("k-1", "o-17"));
    shop.crash(CrashPoint::AfterCompletion, &order).await;
    let answer = shop.send(&order).await;
    assert!(answer.is_replay());
    assert_eq!(answer.json(), json!({ "id": 1 }));
}
