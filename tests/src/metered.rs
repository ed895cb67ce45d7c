//! What is counted, as Prometheus would read it.

use std::collections::BTreeMap;

use metrics::LocalRecorderGuard;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::journal::eventually;

/// A test's own recorder.
pub struct Metered {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

/// One line of what Prometheus reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric's name, for a histogram with `_count` and the like.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Default for Metered {
    fn default() -> Self {
        let builder = PrometheusBuilder::new().set_buckets(&[1.0]);
        let recorder = builder.expect("there is a bucket").build_recorder();
        let handle = recorder.handle();
        Self { recorder, handle }
    }
}

impl Metered {
    /// What this thread makes from now on is counted here, until what this returns is dropped: for tests
    /// on a runtime of one thread.
    #[must_use]
    pub fn record(&self) -> LocalRecorderGuard<'_> {
        metrics::set_default_local_recorder(&self.recorder)
    }

    /// All that is counted.
    pub fn samples(&self) -> Vec<Sample> {
        samples(&self.handle.render())
    }

    /// The sum of those that have these labels, whatever else they have, without its fraction; zero if
    /// there is none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small numbers, none of them negative"
    )]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let fits = |sample: &Sample| {
            let has = |(name, value): &(&str, &str)| {
                sample.labels.get(*name).is_some_and(|own| own == value)
            };
            sample.name == name && labels.iter().all(has)
        };
        let samples = self.samples().into_iter().filter(fits);
        samples.map(|sample| sample.value).sum::<f64>() as u64
    }

    /// Waits until the sum is so.
    pub async fn until(&self, name: &str, labels: &[(&str, &str)], so: impl Fn(u64) -> bool) {
        eventually(&format!("{name}{labels:?} is as awaited"), async || {
            let sum = self.sum(name, labels);
            if so(sum) { Ok(()) } else { Err(sum) }
        })
        .await;
    }
}

impl std::fmt::Debug for Metered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.handle.render())
    }
}

/// Reads Prometheus' text format, as far as this exporter writes it.
///
/// # Panics
/// If a line cannot be read.
pub fn samples(text: &str) -> Vec<Sample> {
    let lines = text.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| sample(line).unwrap_or_else(|| panic!("a line of metrics: {line}")))
        .collect()
}

/// `name{label="value",…} 1`. No label's value here has a quote or a comma in it.
fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels
        .strip_suffix('}')?
        .split(',')
        .filter(|label| !label.is_empty());
    let labels = labels.map(|label| {
        let (name, value) = label.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    Some(Sample {
        name: name.to_owned(),
        labels: labels.collect::<Option<_>>()?,
        value: value.parse().ok()?,
    })
}
