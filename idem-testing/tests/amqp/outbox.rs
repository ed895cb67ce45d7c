//! What handlers publish by their outbox.

use idem_amqp::{
    Publication,
    outbox::{Outbox, Outboxes},
    sqlx::SqliteConnection,
};
use idem_testing::OnSqlite;

use super::*;

#[idempotent(key = "order_id", scope = "orders.charge", max_attempts = 3)]
async fn tell(
    order: OrderPlaced,
    outbox: Outbox,
    attempt: Attempt,
    _: &mut SqliteConnection,
) -> Result<(), Failed> {
    outbox.publish(Publication::json("shipping", &order.order_id))?;
    outbox.publish(Publication::json("billing", &order.amount_cents).exchange("bills", "new"))?;
    if order.amount_cents == 0 && attempt.number() < 3 {
        return Err(Failed::retry("not yet"));
    }
    Ok(())
}

#[idempotent(key = "order_id", scope = "orders.charge", batch = 8)]
async fn tell_all(
    orders: Batch<OrderPlaced>,
    outboxes: Outboxes,
    _: &mut SqliteConnection,
) -> Result<(), Failed> {
    for (order, outbox) in orders.iter().zip(outboxes.iter()) {
        outbox.publish(Publication::json("shipping", &order.order_id))?;
    }
    Ok(())
}

async fn telling() -> Harness<tell, (), OnSqlite> {
    Setup::new(|| ()).sqlite("").await.consume::<tell>("orders")
}

#[tokio::test(start_paused = true)]
async fn what_is_committed_is_published_in_its_order() {
    let harness = telling().await;
    assert!(harness.published().await.is_empty());
    harness.deliver(&order(1250)).await;
    harness.deliver(&order(1250)).await;
    let published = harness.published().await;
    let told = published.iter().map(|it| {
        let body = std::str::from_utf8(&it.body).unwrap();
        (&*it.message_id, &*it.target, body)
    });
    let expected = [
        ("orders.charge:o-17#0", "shipping", "\"o-17\""),
        ("orders.charge:o-17#1", "bills/new", "1250"),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn what_an_attempt_publishes_that_fails_or_vanishes_is_not_there() {
    let harness = telling().await;
    harness.deliver(&order(0)).await;
    harness
        .crash(CrashPoint::BeforeCompletion, &order(0).redelivered())
        .await;
    assert!(harness.published().await.is_empty());
    let ended = harness.deliver_until_done(&order(0).redelivered()).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Executed, Some(3)));
    assert_eq!(harness.published().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn it_is_the_same_whatever_the_order_meets() {
    let published = async |run: &Harness<tell, (), OnSqlite>| run.published().await;
    assert_idempotent(&telling().await, &order(1250), published).await;
}

#[tokio::test(start_paused = true)]
async fn each_message_of_a_batch_has_its_own() {
    let setup = Setup::new(|| ()).sqlite("").await;
    let harness = setup.consume::<tell_all>("orders");
    let orders = ["o-1", "o-2"].map(|id| {
        Message::json(&OrderPlaced {
            order_id: id.into(),
            amount_cents: 1,
        })
    });
    harness.deliver_together(&orders).await;
    let published = harness.published().await;
    let mut ids: Vec<_> = published.iter().map(|it| &*it.message_id).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["orders.charge:o-1#0", "orders.charge:o-2#0"]);
}
