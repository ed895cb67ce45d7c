//! How far a worker is behind.

use std::time::Duration;

use idem_core::MemoryStore;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::bed::{Bed, Running, Seen, note, order, until};

const RECORDS: usize = 15;

fn lag(worker: &Running) -> Option<u64> {
    worker.health.partitions().first()?.lag
}

/// The value of a metric of partition 0.
pub(crate) fn value(metrics: &PrometheusHandle, name: &str, topic: &str) -> Option<u64> {
    let text = metrics.render();
    let line = format!("{name}{{handler=\"kafka.note\",topic=\"{topic}\",partition=\"0\"}} ");
    let mut values = text.lines().filter_map(|text| text.strip_prefix(&line));
    values.next()?.parse().ok()
}

#[tokio::test]
async fn a_worker_tells_how_far_it_is_behind() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _recorded = metrics::set_default_local_recorder(&recorder);
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let name = topic.name().to_owned();
    let seen = Seen::default().taking(Duration::from_millis(300));
    for number in 0..RECORDS {
        bed.send(&name, 0, Some("k"), &order(number)).await;
    }
    let worker = bed.worker::<note, _>(MemoryStore::new(), &seen, topic);
    until("it is behind", || lag(&worker).is_some_and(|lag| lag > 0)).await;
    assert!(value(&metrics, "idem_kafka_lag_messages", &name) > Some(0));
    seen.until_settled(RECORDS).await;
    until("it is there", || lag(&worker) == Some(0)).await;
    assert_eq!(value(&metrics, "idem_kafka_lag_messages", &name), Some(0));
    assert_eq!(value(&metrics, "idem_kafka_mark", &name), Some(15));
    worker.stop().await;
    assert_eq!(value(&metrics, "idem_kafka_mark", &name), Some(0));
}
