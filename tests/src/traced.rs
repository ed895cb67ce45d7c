//! What is traced, as an OpenTelemetry collector would get it.

use opentelemetry::{
    TraceId, global,
    trace::{SpanId, TracerProvider as _},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// The spans of one test.
#[derive(Debug)]
pub struct Traced {
    exporter: InMemorySpanExporter,
    provider: SdkTracerProvider,
}

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct Span(SpanData);

impl Default for Traced {
    fn default() -> Self {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone());
        Self {
            exporter,
            provider: provider.build(),
        }
    }
}

impl Traced {
    /// What this thread does is traced until what this returns is dropped: spans of idem's, and of the
    /// target `test`.
    pub fn record(&self) -> impl Sized + use<> {
        let ours = ["idem_amqp::telemetry", "idem_core::telemetry", "test"];
        let ours = ours.map(|target| (target, tracing::Level::DEBUG));
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer("test"));
        let layer = layer.with_filter(Targets::new().with_targets(ours));
        tracing_subscriber::registry().with(layer).set_default()
    }

    /// All spans of this name, which is the one that a collector shows.
    ///
    /// # Panics
    /// Never: the exporter was not shut down.
    pub fn named(&self, name: &str) -> Vec<Span> {
        let ended = self.exporter.get_finished_spans();
        let ended = ended.expect("an exporter that works").into_iter();
        ended.filter(|span| span.name == name).map(Span).collect()
    }

    /// The only span of this name.
    ///
    /// # Panics
    /// If there is another one, or none.
    #[track_caller]
    pub fn only(&self, name: &str) -> Span {
        let [span] = &self.named(name)[..] else {
            panic!("one span `{name}`: {self:?}");
        };
        span.clone()
    }
}

impl Span {
    /// The trace that it is part of.
    pub fn trace(&self) -> TraceId {
        self.0.span_context.trace_id()
    }

    /// The span itself.
    pub fn id(&self) -> SpanId {
        self.0.span_context.span_id()
    }

    /// The span that it is in.
    pub fn parent(&self) -> SpanId {
        self.0.parent_span_id
    }

    /// The spans that it is linked to.
    pub fn links(&self) -> Vec<SpanId> {
        let links = self.0.links.iter();
        links.map(|link| link.span_context.span_id()).collect()
    }

    /// Client, producer, consumer or internal.
    pub fn kind(&self) -> String {
        format!("{:?}", self.0.span_kind)
    }

    /// What is said of it under this name; nothing if that is empty.
    pub fn attribute(&self, name: &str) -> String {
        let mut attributes = self.0.attributes.iter();
        let found = attributes.find(|attribute| attribute.key.as_str() == name);
        found.map_or_else(String::new, |attribute| attribute.value.to_string())
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self.0.status, opentelemetry::trace::Status::Error { .. })
    }
}
