use idem_core::{Attempt, Failed, FencingToken, FromRef, Headers, Key, State, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

#[derive(Clone)]
struct Mailer;

struct App {
    mailer: Mailer,
}

impl FromRef<App> for Mailer {
    fn from_ref(app: &App) -> Self {
        app.mailer.clone()
    }
}

#[idempotent(key = "order_id")]
async fn notify(
    Order { order_id }: Order,
    State(Mailer): State<Mailer>,
    attempt: Attempt,
    _: FencingToken,
    headers: Headers,
    key: Key,
) -> Result<usize, Failed> {
    let known = headers.get(key.as_str()).is_some() || attempt.is_last();
    Ok(order_id.len() + usize::from(known))
}

fn consume<H: Handler<App>>(_: &App) {}

fn main() {
    consume::<notify>(&App { mailer: Mailer });
}
