//! What is logged and traced while a request is handled stands in the span that is round the request.

use std::{
    io::Write,
    sync::{Arc, Mutex, OnceLock},
};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
    routing::post,
};
use idem_core::MemoryStore;
use idem_http::IdempotencyLayer;
use tower_service::Service as _;
use tracing::{Dispatch, Instrument as _, Level, subscriber::DefaultGuard};
use tracing_subscriber::fmt::format::FmtSpan;

/// While there is one subscriber in the process, a thread that comes to a span for the first time asks its own subscriber
/// alone whether anybody listens. It has none, and what it notes is for all threads.
static NOT_ALONE: OnceLock<Dispatch> = OnceLock::new();

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// What this thread logs from this level on, for as long as there is the guard.
    pub(crate) fn here(level: Level) -> (Self, DefaultGuard) {
        let log = Self::default();
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false);
        let subscriber = subscriber
            .with_max_level(level)
            .with_span_events(FmtSpan::NEW);
        let subscriber = subscriber.with_writer(move || written.clone()).finish();
        NOT_ALONE.get_or_init(|| Dispatch::new(tracing_subscriber::registry()));
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines that warn.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let text = self.text();
        let warnings = text.lines().filter(|line| line.contains(" WARN "));
        warnings.map(str::to_owned).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The handler runs in a task of its own.
#[tokio::test]
async fn a_handlers_log_is_in_the_requests_span() {
    let (log, _here) = Log::here(Level::INFO);
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let handler = async || tracing::info!("charged");
    let mut app: Router = Router::new().route("/", post(handler)).layer(layer);
    let request = Request::post("/").header("idempotency-key", "k");
    let request = request.body(Body::empty()).unwrap();
    let span = tracing::info_span!("request", id = 17);
    let answered = app.call(request).instrument(span).await.unwrap();
    assert_eq!(answered.status(), 200);
    let written = log.text();
    let line = written.lines().find(|line| line.contains("charged"));
    let line = line.unwrap_or_else(|| panic!("{written}"));
    assert!(line.contains("request{id=17}"), "{line}");
}

#[tokio::test]
async fn the_spans_of_the_engine_are_in_the_requests_span() {
    let (log, _here) = Log::here(Level::DEBUG);
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    for (status, end) in [(200, "complete"), (503, "release")] {
        let handler = async move || {
            tracing::info!("charged");
            StatusCode::from_u16(status).unwrap()
        };
        let mut app: Router = Router::new().route("/", post(handler)).layer(layer.clone());
        let request = Request::post("/").header("idempotency-key", end);
        let request = request.body(Body::empty()).unwrap();
        let span = tracing::info_span!("request", status);
        let answered = app.call(request).instrument(span).await.unwrap();
        assert_eq!(answered.status(), status);
        let written = log.text();
        let within = format!("request{{status={status}}}:");
        for (inner, is_new) in [("claim", true), ("run", true), (end, true), ("run", false)] {
            let inside = format!("{within}{inner}{{");
            let what = if is_new { ": new" } else { ": charged" };
            let mut lines = written.lines();
            let is_there = lines.any(|line| line.contains(&inside) && line.ends_with(what));
            assert!(is_there, "no {inside}…{what} in: {written}");
        }
    }
}
