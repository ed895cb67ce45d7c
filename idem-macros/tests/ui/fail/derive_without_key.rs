use idem_core::IdempotencyKey;

#[derive(IdempotencyKey)]
struct Order {
    order_id: String,
}

fn main() {}
