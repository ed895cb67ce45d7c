//! A stream that a handler reads, as its subscription knows it.

use std::sync::Arc;

use idem_core::executor::StreamMarks;

use crate::telemetry::StreamMeters;

/// Where the handler is in the stream, and what is measured of it.
#[derive(Clone)]
pub(in crate::worker) struct StreamSource {
    pub(in crate::worker) marks: StreamMarks,
    /// Registered when the handler is consumed, as all handles are.
    pub(in crate::worker) meters: Arc<StreamMeters>,
}
