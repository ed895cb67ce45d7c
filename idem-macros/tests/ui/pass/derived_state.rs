use idem_core::{Failed, FromRef, State, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[derive(Clone)]
struct Mailer;

#[derive(Clone)]
struct Clock;

#[derive(FromRef)]
struct App {
    mailer: Mailer,
    r#type: Clock,
    addresses: Vec<String>,
    #[from_ref(skip)]
    others: Vec<String>,
    #[from_ref(skip)]
    _not_clone: std::sync::Mutex<()>,
}

#[idempotent(key = "order_id")]
async fn notify(
    order: Order,
    State(_): State<Mailer>,
    State(_): State<Clock>,
    State(addresses): State<Vec<String>>,
) -> Result<(), Failed> {
    drop((order.order_id, addresses));
    Ok(())
}

fn consume<S, H: Handler<S>>(_: &S) {}

fn main() {
    let app = App {
        mailer: Mailer,
        r#type: Clock,
        addresses: vec!["one".into()],
        others: Vec::new(),
        _not_clone: std::sync::Mutex::new(()),
    };
    consume::<App, notify>(&app);
    assert_eq!(<Vec<String>>::from_ref(&app), ["one"]);
    let _ = (&app.mailer, &app.r#type, &app.others);
}
