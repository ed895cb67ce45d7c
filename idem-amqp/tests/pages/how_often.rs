use idem_amqp::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced { order_id: String }

struct Letter;

#[derive(Clone)]
struct Mailer;

impl Mailer {
    async fn write(&self, _: &OrderPlaced) -> std::io::Result<Letter> { Ok(Letter) }
    async fn send(&self, _: Letter) -> std::io::Result<()> { Ok(()) }
}

#[idempotent(key = "order_id", scope = "orders.remind", in_doubt = "quarantine", timeout = "20s")]
async fn remind(order: OrderPlaced, State(mail): State<Mailer>) -> Result<(), Failed> {
    let letter = mail.write(&order).await?;     // nothing has left yet: an error here is tried again
    if let Err(error) = mail.send(letter).await {
        // It may have left all the same. Whatever came of it, the message is done.
        tracing::warn!(%error, order.order_id, "a reminder may not have been sent");
    }
    Ok(())
}
