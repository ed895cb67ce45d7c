//! Handlers with a transaction or a pool, on a real PostgreSQL.

use std::time::{Duration, Instant as StdInstant};

use axum::{Router, routing::post};
use idem_core::sqlx::{self, PgConnection, PgPool};
use idem_http::{IdempotencyLayer, Tx};
use idem_servers::postgres;
use idem_testing::http::{Answer, Call, CrashPoint, Harness, OnPostgres, Setup, assert_idempotent};
use tokio::time::{Instant, sleep};

use super::*;

const SCHEMA: &str = "CREATE TABLE charges (id serial, order_id text, cents bigint)";

async fn insert(order: &Order, db: &mut PgConnection) -> i32 {
    sqlx::query_scalar("INSERT INTO charges (order_id, cents) VALUES ($1, $2) RETURNING id")
        .bind(&order.id)
        .bind(order.cents)
        .fetch_one(db)
        .await
        .unwrap()
}

async fn charge_in_transaction(
    Tx(mut db): Tx<PgConnection>,
    Json(order): Json<Order>,
) -> (StatusCode, Json<Value>) {
    let id = insert(&order, db.as_mut()).await;
    (StatusCode::CREATED, Json(json!({ "id": id })))
}

async fn setup() -> Setup<(), OnPostgres> {
    let url = postgres::shared().unwrap().url();
    Setup::new(|| ()).postgres(&url, SCHEMA).await
}

async fn shop() -> Harness<(), OnPostgres> {
    setup().await.service(|store, ()| {
        let once = IdempotencyLayer::new(store).unscoped();
        let once = once.atomic::<PgConnection>();
        Router::new()
            .route("/charges", post(charge_in_transaction))
            .layer(once)
    })
}

async fn charges<St>(run: &Harness<St, OnPostgres>) -> Vec<(String, i64)> {
    sqlx::query_as("SELECT order_id, cents FROM charges ORDER BY id")
        .fetch_all(&mut *run.database().await)
        .await
        .unwrap()
}

fn charged() -> Vec<(String, i64)> {
    vec![("o-17".to_owned(), 1250)]
}

#[tokio::test(start_paused = true)]
async fn a_handler_in_a_transaction_passes_at_every_point() {
    assert_idempotent(&shop().await, &order("k-1", "o-17"), charges).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_answered_with_the_response_of_the_first() {
    let (shop, order) = (shop().await, order("k-1", "o-17"));
    let [first, copy] = [shop.send(&order).await, shop.send(&order).await];
    assert_eq!((first.is_replay(), copy.is_replay()), (false, true));
    assert_eq!(
        [first.json(), copy.json()],
        [json!({ "id": 1 }), json!({ "id": 1 })]
    );
    assert_eq!(charges(&shop).await, charged());
}

#[tokio::test(start_paused = true)]
async fn of_two_copies_at_once_one_writes() {
    let (shop, order) = (shop().await, order("k-1", "o-17"));
    let both = shop.send_at_once(&order).await;
    assert_eq!(
        both.each_ref().map(Answer::status),
        [StatusCode::CREATED; 2]
    );
    let [one, other] = both;
    assert_eq!(one.json(), other.json());
    assert!(one.is_replay() != other.is_replay());
    assert_eq!(charges(&shop).await, charged());
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_process_that_vanishes_are_rolled_back() {
    let order = order("k-1", "o-17");
    for point in [CrashPoint::InHandler(1), CrashPoint::BeforeCompletion] {
        let shop = shop().await;
        shop.crash(point, &order).await;
        assert!(charges(&shop).await.is_empty(), "{point}");
        let answer = shop.send_until_done(&order).await;
        assert_eq!(
            (answer.status(), answer.is_replay()),
            (StatusCode::CREATED, false),
            "{point}"
        );
        assert_eq!(charges(&shop).await, charged(), "{point}");
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

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_lost_is_not_run_again() {
    let (shop, order) = (shop().await, order("k-1", "o-17"));
    shop.store().lose_next_answer(Call::Complete);
    assert_eq!(shop.send(&order).await.json(), json!({ "id": 1 }));
    assert!(shop.send(&order).await.is_replay());
    assert_eq!(charges(&shop).await, charged());
}

#[tokio::test(start_paused = true)]
async fn what_a_client_has_begun_that_went_away_is_committed() {
    let (shop, order) = (shop().await, order("k-1", "o-17"));
    shop.leave(1, &order).await;
    let answer = shop.send_until_done(&order).await;
    assert!(answer.is_replay());
    assert_eq!(charges(&shop).await, charged());
}

async fn wait_first(db: Tx<PgConnection>, order: Json<Order>) -> (StatusCode, Json<Value>) {
    sleep(Duration::from_mins(5)).await;
    charge_in_transaction(db, order).await
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_waits_on_the_paused_clock_keeps_its_lease() {
    let shop = setup().await.service(|store, ()| {
        let once = IdempotencyLayer::new(store).unscoped();
        let once = once.atomic::<PgConnection>();
        Router::new()
            .route("/charges", post(wait_first))
            .layer(once)
    });
    let (order, began, really) = (order("k-1", "o-17"), Instant::now(), StdInstant::now());
    assert_eq!(
        shop.send_until_done(&order).await.json(),
        json!({ "id": 1 })
    );
    assert!(began.elapsed() >= Duration::from_mins(5));
    // Of 30 heartbeats none is waited for as long as for a database.
    let took = really.elapsed();
    assert!(took < Duration::from_secs(40), "{took:?}");
}

/// Finds its connection where an application has it.
#[derive(Clone)]
struct Shop {
    pool: PgPool,
}

/// What goes by the pool is not rolled back with the transaction.
async fn charge_beside_the_transaction(
    State(shop): State<Shop>,
    Tx(mut db): Tx<PgConnection>,
    Json(order): Json<Order>,
) -> StatusCode {
    sqlx::query("SELECT 1").execute(db.as_mut()).await.unwrap();
    insert(&order, &mut shop.pool.acquire().await.unwrap()).await;
    StatusCode::CREATED
}

async fn charge_by_pool(State(shop): State<Shop>, Json(order): Json<Order>) -> StatusCode {
    insert(&order, &mut shop.pool.acquire().await.unwrap()).await;
    StatusCode::CREATED
}

async fn charge_unless_charged(State(shop): State<Shop>, Json(order): Json<Order>) -> StatusCode {
    let mut db = shop.pool.begin().await.unwrap();
    let charged = sqlx::query("SELECT FROM charges WHERE order_id = $1").bind(&order.id);
    if charged.fetch_optional(&mut *db).await.unwrap().is_none() {
        insert(&order, &mut db).await;
    }
    db.commit().await.unwrap();
    StatusCode::CREATED
}

async fn with_pool() -> Setup<Shop, OnPostgres> {
    setup().await.state(|database| Shop {
        pool: database.pool(),
    })
}

async fn panic_at_rehearsal(shop: &Harness<Shop, OnPostgres>) -> String {
    let order = order("k-1", "o-17");
    panic_of(assert_idempotent(shop, &order, charges)).await
}

#[tokio::test(start_paused = true)]
async fn a_leased_handler_that_looks_first_by_its_pool_passes_at_every_point() {
    let shop = with_pool().await.service(|store, shop| {
        let once = IdempotencyLayer::new(store).unscoped();
        let charges = Router::new().route("/charges", post(charge_unless_charged));
        charges.layer(once).with_state(shop.clone())
    });
    assert_idempotent(&shop, &order("k-1", "o-17"), charges).await;
}

#[tokio::test(start_paused = true)]
async fn a_leased_handler_that_charges_again_is_found_out() {
    let shop = with_pool().await.service(|store, shop| {
        let once = IdempotencyLayer::new(store).unscoped();
        let charges = Router::new().route("/charges", post(charge_by_pool));
        charges.layer(once).with_state(shop.clone())
    });
    let panic = panic_at_rehearsal(&shop).await;
    let told = "crash after the handler, before the completion: the effect is doubled";
    assert!(panic.contains(told), "{panic}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_writes_beside_its_transaction_is_found_out() {
    let shop = with_pool().await.service(|store, shop| {
        let once = IdempotencyLayer::new(store).unscoped();
        let once = once.atomic::<PgConnection>();
        let charges = Router::new().route("/charges", post(charge_beside_the_transaction));
        charges.layer(once).with_state(shop.clone())
    });
    let panic = panic_at_rehearsal(&shop).await;
    let told = "crash after the handler, before the completion: the effect is doubled";
    assert!(panic.contains(told), "{panic}");
}

/// The layer is for the routes that are there when it is laid: there are none yet.
#[tokio::test(start_paused = true)]
async fn a_route_that_was_added_behind_its_layer_is_found_out() {
    let shop = with_pool().await.service(|store, shop| {
        let once = IdempotencyLayer::new(store).unscoped();
        let charges = Router::new()
            .layer(once)
            .route("/charges", post(charge_by_pool));
        charges.with_state(shop.clone())
    });
    let panic = panic_at_rehearsal(&shop).await;
    for told in [
        "delivered again: the effect is doubled",
        "delivered to two workers at once: the effect is doubled",
    ] {
        assert!(panic.contains(told), "{panic}");
    }
}
