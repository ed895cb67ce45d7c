use idem_core::{
    Envelope, Failed, IdempotencyKey,
    handler::{Handler, Operation},
    idempotent,
};
use serde::Deserialize;

#[derive(Deserialize, IdempotencyKey)]
struct Shipped {
    #[key]
    parcel: u64,
}

#[derive(Deserialize, IdempotencyKey)]
#[serde(tag = "type")]
enum OrderEvent {
    Placed {
        #[key]
        order_id: String,
        amount_cents: i64,
    },
    #[key(name = "Paid")]
    PaidInFull {
        #[key]
        order_id: String,
        #[key]
        r#type_of_card: u8,
    },
    Shipped(Shipped),
}

#[derive(IdempotencyKey)]
enum Either<'a> {
    Text(#[key] &'a str),
    Number(#[key] u64),
}

#[idempotent(scope = "orders.handle")]
async fn handle(event: OrderEvent) -> Result<(), Failed> {
    match event {
        OrderEvent::Placed { order_id, amount_cents } => drop((order_id, amount_cents)),
        OrderEvent::PaidInFull { order_id, type_of_card } => drop((order_id, type_of_card)),
        OrderEvent::Shipped(shipped) => assert!(shipped.parcel > 0),
    }
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn key(body: &'static str) -> String {
    let envelope = Envelope::new(body);
    let event = handle::decode(&envelope).unwrap();
    handle::key(&event, &envelope).unwrap().as_str().to_owned()
}

fn main() {
    consume::<handle>();
    let placed = key(r#"{"type": "Placed", "order_id": "o-17", "amount_cents": 5}"#);
    assert_eq!(placed, "orders.handle:Placed:o-17");
    let paid = key(r#"{"type": "PaidInFull", "order_id": "o-17", "type_of_card": 3}"#);
    assert_eq!(paid, "orders.handle:Paid:o-17:3");
    let shipped = key(r#"{"type": "Shipped", "parcel": 4}"#);
    assert_eq!(shipped, "orders.handle:Shipped:4");
    for either in [Either::Text("4"), Either::Number(4)] {
        let key = idem_core::Key::builder("orders");
        assert!(either.parts(key).build().is_ok());
    }
}
