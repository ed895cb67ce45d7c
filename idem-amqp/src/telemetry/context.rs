//! Trace context in AMQP headers, as the application's propagator writes it: with the W3C's, the headers
//! `traceparent`, `tracestate` and, if it carries baggage, `baggage`.

use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use opentelemetry::{
    Context, global,
    propagation::{Extractor, Injector},
    trace::TraceContextExt as _,
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::wire::{Delivery, Publication};

/// A message that can take the context along.
pub(crate) trait Carrier {
    /// Whether it has a header of one of these names.
    fn has_any_header(&self, names: &[&str]) -> bool;

    /// Adds these headers.
    fn with_headers(self, further: &FieldTable) -> Self;
}

impl Carrier for Publication {
    fn has_any_header(&self, names: &[&str]) -> bool {
        let headers = self.properties.headers().as_ref();
        headers.is_some_and(|own| names.iter().any(|name| own.contains_key(name)))
    }

    fn with_headers(mut self, further: &FieldTable) -> Self {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        for (name, value) in further {
            headers.insert(name.clone(), value.clone());
        }
        self.properties = self.properties.with_headers(headers);
        self
    }
}

/// Makes a delivery's span part of the trace that its message was published in. A delivery of the broker's
/// own making, and one that comes back from the retry ladder, belong there, too: that trace shows every
/// attempt.
///
/// What a person sends again, days later perhaps, is a trace of its own, with a link to the publisher's.
pub(crate) fn adopt(span: &Span, delivery: &Delivery) {
    if span.is_disabled() {
        return;
    }
    let headers = Headers(delivery);
    let context = global::get_text_map_propagator(|propagator| propagator.extract(&headers));
    if delivery.is_replay() {
        span.add_link(context.span().span_context().clone());
    } else {
        // Fails for a span that has begun, or that nobody records.
        let _ = span.set_parent(context);
    }
}

/// The message with the current span's context, unless it carries one: then it was created in that, and
/// its worker only passes it on.
pub(crate) fn inject<M: Carrier>(message: M) -> M {
    let mut table = Table(FieldTable::default());
    let context = current();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut table));
    let Table(headers) = table;
    let names: Vec<_> = headers.inner().keys().map(ShortString::as_str).collect();
    if names.is_empty() || message.has_any_header(&names) {
        return message;
    }
    message.with_headers(&headers)
}

/// That of the current span, or of an application that traces without `tracing`.
fn current() -> Context {
    let context = Span::current().context();
    if context.span().span_context().is_valid() {
        return context;
    }
    Context::current()
}

struct Headers<'a>(&'a Delivery);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.own_text(key)
    }

    fn keys(&self) -> Vec<&str> {
        idem_core::message::HeaderSource::names(self.0)
    }
}

struct Table(FieldTable);

impl Injector for Table {
    /// An empty value, of a state that is none, is left out; so is a name that AMQP cannot have.
    fn set(&mut self, key: &str, value: String) {
        let Ok(key) = ShortString::try_new(key) else {
            return;
        };
        if !value.is_empty() {
            let value = AMQPValue::LongString(LongString::from(value.as_str()));
            self.0.insert(key, value);
        }
    }
}
