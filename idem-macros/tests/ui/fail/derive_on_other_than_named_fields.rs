use idem_core::IdempotencyKey;

#[derive(IdempotencyKey)]
enum Order {
    Placed {
        #[key]
        order_id: String,
    },
}

#[derive(IdempotencyKey)]
struct OrderId(#[key] String);

fn main() {}
