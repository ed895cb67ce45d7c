use idem_amqp::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Notice { customer: String, order_id: String, amount_cents: i64 }

impl Notice {
    fn validate(&self) -> Result<(), &'static str> {
        if self.amount_cents > 0 { Ok(()) } else { Err("the amount must be positive") }
    }
}

#[derive(Serialize)]
struct Receipt;

#[derive(Clone)]
struct Mailer;

impl Mailer {
    async fn send(&self, _: &Notice, _: u32) -> Result<Receipt, Failed> { Ok(Receipt) }
}

#[idempotent(
    key = ["customer", "order_id"],   // fields; also "nested.field", header("x-id"), message_id(),
                                      // content(), first(a, b, …), position() (streams, Kafka)
    scope = "orders.notify",          // permanent, no other handler's; default: "<package>.<function>"
    lease = "30s", retention = "72h", max_attempts = 10,
    timeout = "20s",                  // default: an attempt may take as long as it likes
    in_doubt = "retry",               // or "quarantine"
    fingerprint = ["amount_cents"],   // default: the whole body; or off
    validate = Notice::validate,      // fn(&Notice) -> Result<(), impl Display>
)]
async fn notify(order: Notice, State(mail): State<Mailer>, attempt: Attempt) -> Result<Receipt, Failed> {
    mail.send(&order, attempt.number()).await
}
