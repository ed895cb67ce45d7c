//! An order, what it takes to charge it, and what both doors say.

use std::time::Duration;

use axum::{
    Json,
    extract::FromRequestParts,
    http::{StatusCode, header, request::Parts},
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

/// Whose order it is: two tenants may have orders of the same id. Messages are nobody's.
pub(crate) struct Tenant(String);

impl Tenant {
    pub(crate) fn none() -> Self {
        Self("none".to_owned())
    }

    /// By the header `X-Tenant`. A service that knows its clients takes it from what has authenticated them.
    pub(crate) fn of(request: &Parts) -> Option<Self> {
        match request.headers.get("x-tenant") {
            Some(tenant) => tenant.to_str().ok().map(|it| Self(it.to_owned())),
            None => Some(Self::none()),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<S: Sync> FromRequestParts<S> for Tenant {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // The layer has refused such a request before.
        let unknown = || ApiError::new(StatusCode::BAD_REQUEST, "X-Tenant is not text");
        Self::of(parts).ok_or_else(unknown)
    }
}

/// What became of an order in its tables.
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
