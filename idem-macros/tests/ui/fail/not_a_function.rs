use idem_core::idempotent;

#[idempotent(key = "order_id")]
struct Charge;

fn main() {}
