//! An order, and what it takes to charge it.

use std::{sync::Arc, time::Duration};

use idem_amqp::Failed;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// The message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: String,
    pub(crate) customer: String,
    pub(crate) amount_cents: i64,
}

/// What the handlers need of the application.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pub(crate) worker: Arc<str>,
    gateway_takes: Duration,
}

impl Shop {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            worker: settings.worker.as_str().into(),
            gateway_takes: settings.work,
        }
    }

    /// Checks an order and waits for the payment gateway.
    pub(crate) async fn pay(&self, order: &OrderPlaced) -> Result<(), Failed> {
        if order.amount_cents <= 0 {
            return Err(Failed::rejected("amount_cents must be positive"));
        }
        if order.order_id.contains('\0') || order.customer.contains('\0') {
            return Err(Failed::rejected(
                "order_id and customer must not contain NUL",
            ));
        }
        if !self.gateway_takes.is_zero() {
            tokio::time::sleep(self.gateway_takes).await;
        }
        Ok(())
    }
}
