use idem_core::IdempotencyKey;

#[derive(IdempotencyKey)]
enum Order {
    Placed { order_id: String },
    Cancelled,
    Paid(String, u64),
    #[key(rename = "shipped")]
    Shipped {
        #[key]
        order_id: String,
    },
    #[key(name = "Placed")]
    Accepted {
        #[key]
        order_id: String,
    },
}

fn main() {}
