//! What is told of a partition that stops at a record.

use std::{
    io,
    sync::{Arc, Mutex},
};

use idem_core::{MemoryStore, store::StreamStore as _};
use idem_kafka::{OnFailure, Order, PartitionState};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{
    bed::{Bed, Seen, note, order, until},
    lag::value,
    reading::mark_of,
};

/// What all tests of this process have written at `ERROR`, by `tracing_subscriber::fmt`.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// For the whole process: a line that another test writes first would else be one that nobody wants.
    fn install() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::ERROR)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("this is the only one");
        log
    }

    /// The lines about this topic.
    fn of(&self, topic: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains(topic));
        lines.map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shares the promise of `kafka::settling::a_partition_stops_at_what_cannot_be_handled_if_it_is_to`.
///
/// On one thread: the metrics are this test's own.
#[tokio::test]
async fn the_log_and_a_gauge_tell_where_a_partition_stops_and_what_to_do_until_its_mark_is_set() {
    let (recorder, log) = (PrometheusBuilder::new().build_recorder(), Log::install());
    let metrics = recorder.handle();
    let _recorded = metrics::set_default_local_recorder(&recorder);
    let (bed, store, seen) = (Bed::new(), MemoryStore::new(), Seen::default());
    let topic = bed.topic("orders", 1).await.order(Order::ByPartition);
    let name = topic.name().to_owned();
    let stopped = || value(&metrics, "idem_kafka_stopped", &name);
    let send = async |id| bed.send(&name, 0, None, &order(id)).await;
    send("before").await;
    let topic = topic.on_failure(OnFailure::Stop);
    let worker = bed.worker::<note, _>(store.clone(), &seen, topic);
    seen.until_settled(1).await;
    assert_eq!(stopped(), Some(0));
    send("rejected").await;
    send("behind").await;
    let state = PartitionState::Stopped { offset: 1 };
    until("it stops", || {
        let partitions = worker.health.partitions();
        partitions.iter().any(|one| one.state == state)
    })
    .await;
    assert_eq!((stopped(), worker.health.is_ready()), (Some(1), false));
    let errors = log.of(&name);
    let [error] = &errors[..] else {
        panic!("{errors:#?}")
    };
    for part in [
        "ERROR",
        r#"handler="kafka.note""#,
        &format!("topic={name:?} partition=0 offset=1 key=kafka.note:rejected "),
        r#"reason="rejected" error="not for us""#,
        "Mend what hinders it",
        "set the mark behind it once all before it is done (`idem marks set`)",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }

    let mark = mark_of("kafka.note", &name, 0);
    until("all before it is done", || {
        worker.health.partitions()[0].mark == Some(1)
    })
    .await;
    store.set_mark(&mark, Some(2)).await.unwrap();
    seen.until_settled(2).await;
    assert_eq!((stopped(), worker.health.is_ready()), (Some(0), true));
    worker.stop().await;
    assert_eq!(seen.done(), ["before", "behind"]);
}
