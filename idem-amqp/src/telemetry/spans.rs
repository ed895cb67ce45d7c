//! A worker's spans: process, which is the whole of a delivery, settle and publish; and a client's: call. At debug
//! level, under the target `idem_amqp::telemetry::spans`; inside process are those of the engine.
//!
//! Names are those of OpenTelemetry's conventions for messaging, as of their version 1.42.0, which are not
//! stable yet; ours begin with `idem.`.

use std::fmt::Display;

use idem_core::settlement::Settlement;
use lapin::types::ShortString;
use tracing::{
    Span, debug_span,
    field::{Empty, display},
};

use super::{context, label};
use crate::{
    error::PublishError,
    wire::{Publication, Settled, delivery::Delivery},
};

/// A delivery, from its arrival to its settlement.
pub(crate) fn process(delivery: &Delivery, tag: u64, bytes: usize) -> Span {
    let properties = &delivery.origin().properties;
    let span = debug_span!(
        "process",
        otel.name = %format_args!("process {}", delivery.queue()),
        otel.kind = "consumer",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        messaging.system = "rabbitmq",
        messaging.operation.name = "process",
        messaging.operation.type = "process",
        messaging.destination.name = delivery.queue(),
        messaging.rabbitmq.destination.routing_key = delivery.routing_key(),
        messaging.rabbitmq.message.delivery_tag = tag,
        messaging.message.id = properties.message_id().as_ref().map(ShortString::as_str),
        messaging.message.conversation_id =
            properties.correlation_id().as_ref().map(ShortString::as_str),
        messaging.message.body.size = bytes,
        idem.redelivered = delivery.is_redelivered(),
        idem.replay = delivery.is_replay(),
        idem.key = Empty,
        idem.attempt = Empty,
        idem.outcome = Empty,
        idem.settlement = Empty,
    );
    context::adopt(&span, delivery);
    span
}

/// The delivery of the current span has ended.
pub(crate) fn ended(settled: &Settled<'_>) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    span.record("idem.outcome", settled.kind.label());
    span.record("idem.settlement", label(settled.settlement));
    if let Some(key) = settled.key {
        span.record("idem.key", display(key));
    }
    if let Some(attempt) = settled.attempt {
        span.record("idem.attempt", attempt);
    }
    if let Some(error) = settled.error {
        span.record("error.type", settled.kind.label());
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", error);
    }
}

/// The broker is told.
pub(crate) fn settle(queue: &str, settlement: Settlement) -> Span {
    debug_span!(
        "settle",
        otel.name = %format_args!("settle {queue}"),
        otel.kind = "client",
        messaging.system = "rabbitmq",
        messaging.operation.name = label(settlement),
        messaging.operation.type = "settle",
        messaging.destination.name = queue,
        idem.settlement = label(settlement),
    )
}

/// A message is published, until it is confirmed.
pub(crate) fn publish(publication: &Publication) -> Span {
    let (exchange, routing_key) = publication.address();
    let destination = if exchange.is_empty() {
        routing_key
    } else {
        exchange
    };
    debug_span!(
        "publish",
        otel.name = %format_args!("publish {destination}"),
        otel.kind = "producer",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        messaging.system = "rabbitmq",
        messaging.operation.name = "publish",
        messaging.operation.type = "send",
        messaging.destination.name = destination,
        messaging.rabbitmq.destination.routing_key = routing_key,
        messaging.message.id = publication.id(),
        messaging.message.body.size = publication.size(),
    )
}

/// The message of the current span was published, or not.
pub(crate) fn published(result: &Result<(), PublishError>) {
    if let Err(error) = result {
        let span = Span::current();
        span.record("error.type", kind(error));
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", display(error));
    }
}

/// A request is sent, again and again, until there is a reply.
pub(crate) fn call(queue: &str, id: &str, correlation_id: &str, bytes: usize) -> Span {
    debug_span!(
        "call",
        otel.name = %format_args!("call {queue}"),
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        messaging.system = "rabbitmq",
        messaging.operation.name = "call",
        messaging.operation.type = "send",
        messaging.destination.name = queue,
        messaging.message.id = id,
        messaging.message.conversation_id = correlation_id,
        messaging.message.body.size = bytes,
        idem.tries = Empty,
    )
}

/// The call of the current span has its reply, which may be a refusal.
pub(crate) fn answered(tries: u32) {
    Span::current().record("idem.tries", tries);
}

/// The call of the current span has ended without a reply.
pub(crate) fn unanswered(kind: &'static str, error: &dyn Display) {
    let span = Span::current();
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", display(error));
}

fn kind(error: &PublishError) -> &'static str {
    match error {
        PublishError::Unroutable { .. } => "unroutable",
        PublishError::Refused { .. } => "refused",
        PublishError::Unconfirmed(_) => "unconfirmed",
        PublishError::Broker(_) => "unavailable",
        PublishError::TooLarge { .. } => "too-large",
        // The conventions' word for what has none.
        _ => "_OTHER",
    }
}
