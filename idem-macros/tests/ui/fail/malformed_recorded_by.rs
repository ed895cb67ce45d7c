use idem_core::{Envelope, Failed, IdempotencyKey, Key, idempotent, message::{KeyBuilder, KeyError}};
use serde::Deserialize;

#[derive(Deserialize, IdempotencyKey)]
struct Order {
    #[key]
    order_id: String,
}

struct Connection;

#[idempotent(key = "order_id", recorded_by = payments_order_id_key)]
async fn not_a_literal(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", recorded_by = "")]
async fn empty(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(
    key = "order_id",
    recorded_by = "a_name_that_is_longer_than_any_that_the_server_keeps_without_cutting_it"
)]
async fn too_long(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(recorded_by = "payments_order_id_key")]
async fn without_key(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn name(order: &Order, _: &Envelope, key: KeyBuilder) -> Result<Key, KeyError> {
    key.part("order_id", &order.order_id).build()
}

#[idempotent(key_with = name, recorded_by = "payments_order_id_key")]
async fn key_with_a_function(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = first(message_id(), "order_id"), recorded_by = "payments_order_id_key")]
async fn one_of_several(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[idempotent(key = "order_id", fingerprint = off, recorded_by = "payments_order_id_key")]
async fn with_fingerprint(order: Order, _db: &mut Connection) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
