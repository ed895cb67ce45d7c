//! Several types of messages on one queue, told apart by what stands beside the body.

use idem_amqp::{Delivery, Ladder, Queue, handler::DecodeError, message::Envelope};

use super::*;

#[derive(Deserialize, IdempotencyKey)]
struct Placed {
    #[key]
    order_id: String,
}

#[derive(Deserialize, IdempotencyKey)]
struct Cancelled {
    #[key]
    order_id: String,
    reason: String,
}

#[derive(IdempotencyKey)]
enum OrderEvent {
    Placed(Placed),
    Cancelled(Cancelled),
}

impl OrderEvent {
    fn of(name: &str, envelope: &Envelope) -> Result<Self, DecodeError> {
        match name {
            "order.placed" => envelope.json().map(Self::Placed),
            "order.cancelled" => envelope.json().map(Self::Cancelled),
            other => Err(DecodeError::new(format!(
                "no type of message for `{other}`"
            ))),
        }
    }

    fn by_routing_key(envelope: &Envelope) -> Result<Self, DecodeError> {
        let delivery = envelope.extension::<Delivery>();
        Self::of(delivery.map_or("", Delivery::routing_key), envelope)
    }

    fn by_header(envelope: &Envelope) -> Result<Self, DecodeError> {
        Self::of(&envelope.header("type").unwrap_or_default(), envelope)
    }

    fn tell(self) -> String {
        match self {
            Self::Placed(order) => format!("{} placed", order.order_id),
            Self::Cancelled(order) => format!("{} cancelled: {}", order.order_id, order.reason),
        }
    }
}

#[idempotent(scope = "orders.routed", decode = OrderEvent::by_routing_key)]
async fn by_routing_key(event: OrderEvent, State(journal): State<Journal>) -> Result<(), Failed> {
    journal.write(event.tell());
    Ok(())
}

#[idempotent(scope = "orders.typed", decode = OrderEvent::by_header)]
async fn by_header(event: OrderEvent, State(journal): State<Journal>) -> Result<(), Failed> {
    journal.write(event.tell());
    Ok(())
}

/// Its first attempt fails.
#[idempotent(scope = "orders.retried", decode = OrderEvent::by_routing_key)]
async fn at_the_second_attempt(
    event: OrderEvent,
    State(journal): State<Journal>,
    attempt: Attempt,
) -> Result<(), Failed> {
    if attempt.number() == 1 {
        return Err(Failed::retry("not yet"));
    }
    journal.write(event.tell());
    Ok(())
}

fn event() -> Message {
    let both = serde_json::json!({ "order_id": "o-17", "reason": "too late" });
    Message::json(&both)
}

#[tokio::test(start_paused = true)]
async fn the_routing_key_tells_the_type_and_the_keys_of_types_differ() {
    let harness = Setup::new(Journal::default).consume::<by_routing_key>("orders");
    for key in ["order.placed", "order.cancelled", "order.placed"] {
        harness.deliver(&event().exchange("shop", key)).await;
    }
    assert_eq!(
        harness.state().read(),
        ["o-17 placed", "o-17 cancelled: too late"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_header_tells_the_type_and_an_unknown_one_is_a_dead_letter() {
    let harness = Setup::new(Journal::default).consume::<by_header>("orders");
    harness
        .deliver(&event().header("type", "order.cancelled"))
        .await;
    assert_eq!(harness.state().read(), ["o-17 cancelled: too late"]);
    let unknown = harness.deliver(&event().header("type", "order.paid")).await;
    assert_eq!(
        unknown.settlement(),
        Settlement::DeadLetter(Reason::Undecodable)
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_the_ladder_returns_is_still_of_its_type() {
    let ladder = Ladder::new([Duration::from_secs(5)]).unwrap();
    let queue = Queue::quorum("orders").ladder(ladder);
    let harness = Setup::new(Journal::default).consume::<at_the_second_attempt>(queue);
    harness
        .deliver_until_done(&event().exchange("shop", "order.placed"))
        .await;
    assert_eq!(harness.state().read(), ["o-17 placed"]);
}
