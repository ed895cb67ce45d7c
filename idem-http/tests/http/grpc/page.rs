//! What `docs/grpc.md` shows.

use idem_core::{
    PostgresStore,
    sqlx::{self, PgConnection},
};
use idem_http::{Grpc, IdempotencyLayer, Tx};
use tonic::{Request, Response, Status, transport::Server};

use crate::grpc::service::{Answered, BoxFuture, Charges, Order};

#[derive(Clone)]
struct Tenant(String);

#[derive(Clone, PartialEq, prost::Message)]
struct ChargeRequest {
    #[prost(string, tag = "1")]
    request_id: String,
    #[prost(string, tag = "2")]
    order_id: String,
    #[prost(int64, tag = "3")]
    cents: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Receipt {
    #[prost(int64, tag = "1")]
    id: i64,
}

type Handler = fn(Request<Order>) -> BoxFuture<Answered>;

#[rustfmt::skip]
fn serve(store: PostgresStore, charges: Charges<Handler>) {
let once = IdempotencyLayer::new(store)
    .scoped_by(|request| request.extensions.get::<Tenant>().map(|tenant| tenant.0.clone()))
    .named("shop.grpc")
    .grpc(Grpc::new().key_from("/shop.Charges/Charge", |charge: &ChargeRequest| charge.request_id.clone()))
    .atomic::<PgConnection>();
let server = Server::builder().layer(once.clone()).add_service(charges);

async fn charge(request: Request<ChargeRequest>) -> Result<Response<Receipt>, Status> {
    let Tx(mut db) = Tx::<PgConnection>::from_extensions(request.extensions())?;
    let charge = request.into_inner();
    let id = sqlx::query_scalar("INSERT INTO charges (order_id, cents) VALUES ($1, $2) RETURNING id")
        .bind(charge.order_id)
        .bind(charge.cents)
        .fetch_one(db.as_mut())
        .await
        .map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::new(Receipt { id }))
}
drop(server);
}
