use idem_core::IdempotencyKey;

#[derive(IdempotencyKey)]
struct Order {
    #[key]
    amount: f64,
}

fn main() {}
