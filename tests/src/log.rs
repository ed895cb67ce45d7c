//! What the code under test writes to its log.

use std::{
    cell::RefCell,
    io,
    sync::{Arc, Mutex},
};

use tracing::{Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer,
    filter::{DynFilterFn, FilterExt as _, dynamic_filter_fn},
    fmt::{self, writer::OptionalWriter},
    registry::LookupSpan,
};

use crate::subscriber;

const NO_PANIC: &str = "nothing panics under the lock";

thread_local! {
    /// Where this thread's lines go.
    static CAPTURED: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// Keeps what is logged.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what this thread logs at INFO and above until the guard is dropped.
    pub fn capture(&self) -> impl Sized + use<> {
        subscriber::install();
        Capture {
            before: CAPTURED.replace(Some(self.clone())),
        }
    }

    /// What was logged until now.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect(NO_PANIC)).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect(NO_PANIC).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Capture {
    before: Option<Log>,
}

impl Drop for Capture {
    fn drop(&mut self) {
        CAPTURED.set(self.before.take());
    }
}

/// Writes what captured threads log to where each keeps it.
pub(crate) fn layer<S: Subscriber + for<'span> LookupSpan<'span>>() -> impl Layer<S> {
    let kept = || captured().map_or_else(OptionalWriter::none, OptionalWriter::some);
    fmt::layer()
        .with_ansi(false)
        .with_writer(kept)
        .with_filter(LevelFilter::INFO.and(is_captured()))
}

/// Whether what is logged here is kept by a test.
pub(crate) fn is_captured<S>() -> DynFilterFn<S> {
    dynamic_filter_fn(|_, _| captured().is_some())
}

fn captured() -> Option<Log> {
    // A thread that is ending may log, too.
    CAPTURED.try_with(|log| log.borrow().clone()).ok().flatten()
}
