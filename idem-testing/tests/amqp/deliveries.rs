//! Deliveries without a fault, and how they are settled.

use idem_amqp::Publication;

use super::*;

#[tokio::test(start_paused = true)]
async fn what_is_done_is_acknowledged_and_so_is_its_copy() {
    let harness = charging("orders");
    let first = harness.deliver(&order(1250)).await;
    assert_eq!((first.kind(), first.attempt()), (Kind::Executed, Some(1)));
    assert_eq!((first.settlement(), first.error()), (Settlement::Ack, None));
    assert_eq!(
        first.key().map(ToString::to_string).as_deref(),
        Some("idem-testing.charge:o-17")
    );
    let copy = harness.deliver(&order(1250)).await;
    assert_eq!((copy.kind(), copy.attempt()), (Kind::Duplicate, None));
    assert_eq!(copy.settlement(), Settlement::Ack);
    assert_eq!([first.output::<i64>(), copy.output()], [1250, 1250]);
    assert_eq!(harness.state().read(), ["o-17"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_handled_is_dead_lettered_with_its_reason() {
    let harness = charging("orders");
    harness.deliver(&order(1250)).await;
    let table = [
        (order(1), Reason::KeyReused),
        (Message::bytes("[]"), Reason::Undecodable),
        (
            Message::json(&OrderPlaced {
                order_id: String::new(),
                amount_cents: 1,
            }),
            Reason::Keyless,
        ),
    ];
    for (message, reason) in table {
        let delivered = harness.deliver(&message).await;
        assert_eq!(delivered.settlement(), Settlement::DeadLetter(reason));
        assert!(delivered.error().is_some(), "{reason:?}");
    }
    let panic = panic_of(async { harness.deliver(&order(1)).await.output::<i64>() }).await;
    assert!(
        panic.starts_with(
            "there is no output: the delivery ended as `key-reused`, the key was used before"
        ),
        "{panic}"
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_at_once_one_is_held_until_the_other_is_done() {
    let (harness, began) = (charging("orders"), Instant::now());
    let both = harness.deliver_at_once(&order(1250)).await;
    let ended = both.map(|one| (one.kind(), one.settlement()));
    assert_eq!(
        ended,
        [
            (Kind::Executed, Settlement::Ack),
            (Kind::Duplicate, Settlement::Ack)
        ]
    );
    assert_eq!(harness.state().read(), ["o-17"]);
    assert!(began.elapsed() >= WORK && began.elapsed() < LEASE);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_holds_nothing_steps_back() {
    let harness = charging(Queue::quorum("orders").max_waiting(0));
    let [_, other] = harness.deliver_at_once(&order(1250)).await;
    let after = Duration::from_secs(5);
    assert_eq!(
        (other.kind(), other.settlement()),
        (Kind::Conflict, Settlement::Retry { after })
    );
}

/// Tells where its message came from.
#[idempotent(key = message_id())]
async fn tell(
    _order: OrderPlaced,
    delivery: Delivery,
    headers: Headers,
) -> Result<(String, String, String, bool), Failed> {
    let tenant = headers.get("x-tenant").unwrap_or_default().into_owned();
    let (queue, key) = (delivery.queue().into(), delivery.routing_key().into());
    Ok((queue, key, tenant, delivery.is_redelivered()))
}

#[tokio::test(start_paused = true)]
async fn a_message_comes_with_all_that_rabbitmq_says_of_it() {
    let harness = Setup::new(|| ()).consume::<tell>("orders");
    let message = order(1).message_id("m-1").header("x-tenant", "acme");
    let told = |queue: &str, key: &str, redelivered: bool| {
        (
            queue.to_owned(),
            key.to_owned(),
            "acme".to_owned(),
            redelivered,
        )
    };
    let plain = harness.deliver(&message).await;
    assert_eq!(
        plain.output::<(_, _, _, _)>(),
        told("orders", "orders", false)
    );
    let routed = message.exchange("shop", "placed").message_id("m-2");
    let routed = harness.deliver(&routed.redelivered()).await;
    assert_eq!(
        routed.output::<(_, _, _, _)>(),
        told("orders", "placed", true)
    );
    let keyless = harness.deliver(&order(1)).await;
    assert_eq!(
        keyless.settlement(),
        Settlement::DeadLetter(Reason::Keyless)
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_application_publishes_can_be_delivered() {
    let harness = Setup::new(|| ()).consume::<tell>("orders");
    let published = Publication::json("orders", &["o-17"]);
    let delivered = harness.deliver(&published.into()).await;
    assert_eq!(
        delivered.settlement(),
        Settlement::DeadLetter(Reason::Undecodable)
    );
    let value = OrderPlaced {
        order_id: "o-17".into(),
        amount_cents: 1,
    };
    let published = Publication::json("orders", &value);
    let delivered = harness.deliver(&published.into()).await;
    assert_eq!(delivered.kind(), Kind::Executed);
}
