//! What is told of a partition that stops at a record.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex},
};

use idem_core::{Failed, MemoryStore, State, idempotent, store::StreamStore as _};
use idem_kafka::{OnFailure, Order, PartitionState};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{
    bed::{self, Bed, Seen, note, order, until},
    lag::value,
    reading::mark_of,
};

/// What all tests of this process have written at `ERROR` and `WARN`, by `tracing_subscriber::fmt`.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// For the whole process: a line that another test writes first would else be one that nobody wants.
    fn install() -> Self {
        static INSTALLED: LazyLock<Log> = LazyLock::new(|| {
            let log = Log::default();
            let writer = log.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_ansi(false)
                .with_max_level(tracing::Level::WARN)
                .with_writer(move || writer.clone())
                .finish();
            tracing::subscriber::set_global_default(subscriber).expect("this is the only one");
            log
        });
        INSTALLED.clone()
    }

    /// The lines at this level with this text.
    fn with(&self, level: &str, text: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = log.lines().map(str::to_owned);
        lines
            .filter(|line| line.contains(level) && line.contains(text))
            .collect()
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
    let errors = log.with("ERROR", &name);
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

#[idempotent(key = "id", ordered_by = header("account"), scope = "kafka.unordered")]
async fn post(order: bed::Order, State(seen): State<Seen>) -> Result<(), Failed> {
    seen.work(&order.id).await
}

/// They wait for none, and overtake. Nobody would know.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_record_that_lacks_what_it_is_to_be_ordered_by_is_told() {
    let log = Log::install();
    let (bed, seen) = (Bed::new(), Seen::default());
    let topic = bed.topic("orders", 1).await;
    for number in 0..3 {
        bed.send(topic.name(), 0, None, &order(number)).await;
    }
    let worker = bed.worker::<post, _>(MemoryStore::new(), &seen, topic);
    seen.until_settled(3).await;
    worker.stop().await;
    let told = log.with("WARN", "kafka.unordered");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("is to be ordered by"), "{told:?}");
}
