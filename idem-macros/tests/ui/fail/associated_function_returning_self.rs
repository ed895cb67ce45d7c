use idem_core::{Failed, idempotent};

struct Order {
    order_id: String,
}

impl Order {
    #[idempotent(key = "order_id")]
    async fn normalise(order: Self) -> Result<Self, Failed> {
        Ok(order)
    }
}

fn main() {}
