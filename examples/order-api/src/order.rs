//! An order, what it takes to charge it, and what both doors say.

use std::time::Duration;

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The message, and the body of the request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: String,
    pub(crate) customer: String,
    pub(crate) amount_cents: i64,
}

/// The answer to a request.
#[derive(Debug, Serialize)]
pub(crate) struct Receipt {
    order_id: String,
    amount_cents: i64,
    charge_id: String,
}

/// What became of an order in its table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Charged {
    Now,
    /// By an earlier request, or by the other door, with this amount.
    Before(i64),
}

/// What handlers need of the application.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    gateway_takes: Duration,
}

impl Shop {
    pub(crate) fn new(gateway_takes: Duration) -> Self {
        Self { gateway_takes }
    }

    /// Waits for the payment gateway.
    pub(crate) async fn pay(&self, order: &OrderPlaced) {
        tracing::info!(order_id = order.order_id, "asking the payment gateway");
        if !self.gateway_takes.is_zero() {
            tokio::time::sleep(self.gateway_takes).await;
        }
    }
}

impl OrderPlaced {
    /// Says what is wrong with it.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        if self.amount_cents <= 0 {
            return Err("amount_cents must be positive");
        }
        if self.order_id.is_empty() {
            return Err("order_id must not be empty");
        }
        if self.order_id.contains('\0') || self.customer.contains('\0') {
            return Err("order_id and customer must not contain NUL");
        }
        Ok(())
    }

    /// The answer to a request for it.
    pub(crate) fn answer(self, charged: &Charged) -> Result<(StatusCode, Json<Receipt>), ApiError> {
        match charged {
            Charged::Before(amount) if *amount != self.amount_cents => Err(ApiError::new(
                StatusCode::CONFLICT,
                format!("the order was charged before, with {amount} cents"),
            )),
            Charged::Now | Charged::Before(_) => {
                let receipt = Receipt {
                    charge_id: format!("ch-{}", self.order_id),
                    order_id: self.order_id,
                    amount_cents: self.amount_cents,
                };
                Ok((StatusCode::CREATED, Json(receipt)))
            }
        }
    }
}

/// Why a request is not answered with a receipt, as `application/problem+json`. What its handler wrote is rolled back.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    detail: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
        }
    }

    pub(crate) fn invalid(detail: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }
}

/// Another attempt may do better: the key is free.
impl From<idem_amqp::sqlx::Error> for ApiError {
    fn from(error: idem_amqp::sqlx::Error) -> Self {
        eprintln!("order-api: {error}");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the order could not be charged",
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = json!({
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (self.status, kind, problem.to_string()).into_response()
    }
}
