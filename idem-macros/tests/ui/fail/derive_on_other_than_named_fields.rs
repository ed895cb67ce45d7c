use idem_core::IdempotencyKey;

#[derive(IdempotencyKey)]
union Order {
    #[key]
    number: u64,
    bytes: [u8; 8],
}

#[derive(IdempotencyKey)]
struct OrderId(#[key] String);

fn main() {}
