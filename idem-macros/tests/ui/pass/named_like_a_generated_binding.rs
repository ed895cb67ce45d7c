use idem_core::{Attempt, Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

macro_rules! handlers {
    ($($name:ident)*) => {
        $(
            #[idempotent(key = "order_id", fingerprint = [order_id])]
            async fn $name(message: Order, _: Attempt) -> Result<(), Failed> {
                drop(message.order_id);
                Ok(())
            }
        )*

        fn main() {
            $(consume::<$name>();)*
        }
    };
}

handlers! {
    message
    envelope
    context
    lent
    parameter_0
    key
    decode
    call
    fingerprint
    __message
    __envelope
    __context
    __lent
    __parameter_0
    f
}

#[idempotent(key = order_id)]
async fn r#move(order: Order) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

#[expect(dead_code)]
fn more() {
    consume::<r#move>();
}

fn consume<H: Handler<()>>() {}
