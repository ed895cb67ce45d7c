use std::time::Duration;

use idem_amqp::{Publication, PublishError, Publisher};

#[derive(serde::Serialize)]
struct OrderPlaced { order_id: String }

async fn publish(order: OrderPlaced) -> Result<(), PublishError> {
    let publisher = Publisher::connect("amqp://127.0.0.1:5672/%2f").await?;
    let order = Publication::json("orders.charge", &order).message_id(&order.order_id);
    let mut tries = 0;
    while let Err(error) = publisher.publish(&order).await {
        tries += 1;
        let may_help = matches!(error, PublishError::Unconfirmed(_) | PublishError::Refused { .. } | PublishError::Broker(_));
        if tries == 5 || !may_help {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
