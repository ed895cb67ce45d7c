//! Serves what idem counts as Prometheus text: `docs/operations.md` says what it means.

use std::net::SocketAddr;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use crate::Error;

/// From a store that is near to a payment gateway that is slow.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0,
];

/// Batches have at most 256 calls of a store, or messages.
const BATCH: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Serves `http://ADDRESS/metrics` until the process ends. Without buckets, histograms would be
/// summaries, which cannot be added up over several workers.
pub(crate) fn serve(address: SocketAddr) -> Result<(), Error> {
    PrometheusBuilder::new()
        .with_http_listener(address)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_calls".into()), &BATCH)?
        .set_buckets_for_metric(Matcher::Suffix("_messages".into()), &BATCH)?
        .install()?;
    Ok(())
}
