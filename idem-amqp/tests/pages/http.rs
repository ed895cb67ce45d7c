use axum::{
    Json, Router,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_amqp::{
    PostgresStore,
    sqlx::{self, PgConnection},
};
use idem_http::{IdempotencyLayer, Tx};
use serde::{Deserialize, Serialize};

#[derive(Clone)]
struct Tenant(String);

#[derive(Deserialize)]
struct Order { order_id: String, cents: i64 }

#[derive(Serialize)]
struct Receipt { id: i64 }

struct ApiError;

impl From<sqlx::Error> for ApiError {
    fn from(_: sqlx::Error) -> Self { Self }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response { axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response() }
}

fn service(store: PostgresStore) -> Router {
let once = IdempotencyLayer::new(store)
    .scoped_by(|request| request.extensions.get::<Tenant>().map(|tenant| tenant.0.clone()))
    .named("orders.api")
    .atomic::<PgConnection>();
let app: Router = Router::new().route("/charges", post(charge)).layer(once.clone());

async fn charge(Tx(mut db): Tx<PgConnection>, Json(order): Json<Order>) -> Result<Json<Receipt>, ApiError> {
    let id = sqlx::query_scalar("INSERT INTO charges (order_id, cents) VALUES ($1, $2) RETURNING id")
        .bind(order.order_id)
        .bind(order.cents)
        .fetch_one(db.as_mut())
        .await?;
    Ok(Json(Receipt { id }))
}
app
}
