//! What is traced, as an OpenTelemetry collector would get it.

use std::{cell::Cell, fmt, sync::LazyLock, thread};

use opentelemetry::{
    TraceId, global,
    trace::{SpanId, TracerProvider as _},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use tracing::{Level, Subscriber};
use tracing_subscriber::{
    Layer,
    filter::{FilterExt as _, Targets, dynamic_filter_fn},
    registry::LookupSpan,
};

use crate::subscriber;

/// Has the spans of all tests that have ended.
static EXPORTER: LazyLock<InMemorySpanExporter> = LazyLock::new(InMemorySpanExporter::default);

thread_local! {
    /// Whether what this thread does is traced.
    static RECORDED: Cell<bool> = const { Cell::new(false) };
}

/// The spans that begin on this thread.
pub struct Traced {
    /// How many had ended before: tests may run one after the other on one thread.
    before: usize,
}

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct Span(SpanData);

impl Default for Traced {
    fn default() -> Self {
        global::set_text_map_propagator(TraceContextPropagator::new());
        Self {
            before: finished().len(),
        }
    }
}

/// Of all tests.
fn finished() -> Vec<SpanData> {
    EXPORTER
        .get_finished_spans()
        .expect("an exporter that works")
}

/// Exports the spans of idem's, and of the target `test`, that begin on recorded threads.
pub(crate) fn layer<S: Subscriber + for<'span> LookupSpan<'span>>() -> impl Layer<S> {
    let provider = SdkTracerProvider::builder().with_simple_exporter(EXPORTER.clone());
    let targets = ["idem_amqp::telemetry", "idem_core::telemetry", "test"];
    let targets = targets.map(|target| (target, Level::DEBUG));
    let recorded = dynamic_filter_fn(|_, _| RECORDED.get());
    tracing_opentelemetry::layer()
        .with_tracer(provider.build().tracer("test"))
        .with_threads(true)
        .with_filter(Targets::new().with_targets(targets).and(recorded))
}

struct Recording;

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDED.set(false);
    }
}

impl Traced {
    /// What this thread does is traced until what this returns is dropped.
    pub fn record(&self) -> impl Sized + use<> {
        subscriber::install();
        RECORDED.set(true);
        Recording
    }

    /// Those that have ended.
    fn ended(&self) -> impl Iterator<Item = Span> {
        let here = thread::current()
            .name()
            .map(str::to_owned)
            .unwrap_or_default();
        let spans = finished().into_iter().skip(self.before).map(Span);
        spans.filter(move |span| span.attribute("thread.name") == here)
    }

    /// All spans of this name, which is the one that a collector shows.
    pub fn named(&self, name: &str) -> Vec<Span> {
        self.ended().filter(|span| span.0.name == name).collect()
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

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ended()).finish()
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
