use idem_core::{Envelope, Failed, handler::DecodeError, idempotent};

struct Order {
    order_id: String,
}

fn text(envelope: &Envelope) -> Result<String, DecodeError> {
    String::from_utf8(envelope.body().to_vec()).map_err(DecodeError::new)
}

#[idempotent(key = "order_id", decode = text)]
async fn charge(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

fn main() {}
