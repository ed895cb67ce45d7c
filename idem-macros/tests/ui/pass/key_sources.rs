use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    r#type: String,
    number: Option<u64>,
    customer: Customer,
    line: (u8, bool),
}

#[derive(Deserialize)]
struct Customer {
    id: u64,
}

macro_rules! handlers {
    ($($name:ident: $key:tt;)*) => {
        $(
            #[idempotent(key = $key)]
            async fn $name(order: Order) -> Result<(), Failed> {
                let _ = (order.r#type, order.number, order.customer.id, order.line);
                Ok(())
            }
        )*

        fn main() {
            $(consume::<$name>();)*
        }
    };
}

handlers! {
    field: "number";
    bare: number;
    raw: "type";
    list: ["type", number];
    trailing_comma: ["type", number,];
    nested: ["customer.id"];
    bare_nested: [customer.id];
    keyword: [type];
    tuple: "line.0";
    bare_tuple: [line.1];
    header: [header("x-idempotency-key")];
    id: [message_id()];
    body: [content()];
    mixed: [r#type, "customer.id", header("x-tenant"), content()];
    fallback: [first(message_id(), header("x-message-id"), number, content()), "type"];
}

fn consume<H: Handler<()>>() {}
