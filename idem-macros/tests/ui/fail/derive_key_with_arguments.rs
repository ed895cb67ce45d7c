use idem_core::IdempotencyKey;

#[derive(IdempotencyKey)]
struct Order {
    #[key(rename = "id")]
    order_id: String,
    #[key]
    #[key]
    customer: String,
}

#[derive(IdempotencyKey)]
#[key]
struct Refund {
    #[key]
    refund_id: String,
}

fn main() {}
