#![no_implicit_prelude]

use ::idem_core::{Failed, handler::Handler, idempotent};

#[allow(unused)]
mod core {}

#[allow(dead_code)]
enum Result {}

#[allow(dead_code)]
struct Option;

#[allow(dead_code)]
trait Send {}

#[derive(::serde::Deserialize)]
struct Order {
    order_id: ::std::string::String,
}

#[idempotent(key = first(message_id(), order_id), fingerprint = [order_id], lease = "5s")]
async fn charge(order: Order, _db: &mut u8) -> ::core::result::Result<(), Failed> {
    ::core::mem::drop(order.order_id);
    ::core::result::Result::Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
}
