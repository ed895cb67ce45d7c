//! `docs/operations.md`, the dashboard and the alert rules name what this worker exports, and a relay of an outbox, a
//! reader of a stream, and a handler of batches: all of it, and nothing else.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpListener,
    process::Stdio,
    time::Duration,
};

use idem_amqp::{
    MemoryStore, Publication, Publisher, Queue, SqliteStore, outbox::OutboxRelay, prelude::*,
};
use idem_servers::rabbitmq;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
    task::spawn_blocking,
    time::{sleep, timeout},
};

const DOCS: &str = include_str!("../../../docs/operations.md");
const DASHBOARD: &str = include_str!("../../../docs/operations/grafana-dashboard.json");
const ALERTS: &str = include_str!("../../../docs/operations/alerts.yaml");

/// A metric's type, and the values of its labels by their names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Metric {
    kind: String,
    labels: BTreeMap<String, BTreeSet<String>>,
}

type Metrics = BTreeMap<String, Metric>;

#[tokio::test]
async fn the_documents_name_what_the_worker_exports() {
    let mut exported = exported().await;
    exported.extend(exported_by_a_relay().await);
    exported.extend(exported_by_a_reader());
    exported.extend(exported_for_batches());
    assert_eq!(described(&exported), documented());
    for (file, text) in [("dashboard", DASHBOARD), ("alerts", ALERTS)] {
        let queries = text.replace("\\\"", "\"");
        let used = used(&queries);
        assert!(!used.is_empty(), "the {file} shows nothing");
        // A worker of Kafka exports its own: a test of `idem-kafka` compares them.
        let of_rabbitmq = used
            .into_iter()
            .filter(|(metric, _)| !metric.starts_with("idem_kafka_"));
        for (metric, selectors) in of_rabbitmq {
            let own = base(&metric, &exported);
            let own = own.unwrap_or_else(|| panic!("{file}: `{metric}` is not exported"));
            for (label, value) in selectors {
                let values = own.labels.get(&label);
                let values = values.unwrap_or_else(|| panic!("{file}: {metric} has no {label}"));
                let is_variable = value.starts_with('$');
                assert!(
                    is_variable || values.contains(&value),
                    "{file}: {metric}, {label}={value}"
                );
            }
        }
        // What Prometheus adds (the worker it was read from, what that is a part of, and the bucket), and Kafka's own.
        let mut labels =
            BTreeSet::from(["instance", "job", "le", "topic", "partition"].map(str::to_owned));
        labels.extend(exported.values().flat_map(|one| one.labels.keys().cloned()));
        for label in grouped_by(&queries) {
            assert!(
                labels.contains(&label),
                "{file}: nothing has the label `{label}`"
            );
        }
    }
    let shown: BTreeSet<_> = used(DASHBOARD).into_keys().collect();
    for metric in exported.keys() {
        let found = shown.iter().any(|shown| shown.starts_with(metric));
        assert!(found, "the dashboard does not show {metric}");
    }
}

#[test]
fn every_alert_has_a_section_that_says_what_it_means_what_to_look_at_and_what_to_do() {
    let alerts = ALERTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: Vec<_> = alerts.collect();
    let sections = sections();
    let named: Vec<_> = sections.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(alerts, named);
    for needed in ["IdemNotReady", "IdemDeadLetters", "IdemAttemptsFail"] {
        assert!(alerts.contains(&needed), "no alert {needed}");
    }
    for (name, points) in &sections {
        let labels: Vec<_> = points.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["Means", "Look at", "Do"], "{name}");
        for (label, text) in points {
            let words = text.split_whitespace().count();
            assert!(words >= 4, "{name}, {label}: {text}");
        }
    }
}

/// The alerts' sections, with their points by their labels.
fn sections() -> Vec<(String, Vec<(String, String)>)> {
    let (_, alerts) = DOCS.split_once("\n## Alerts\n").unwrap();
    let (alerts, _) = alerts.split_once("\n## ").unwrap();
    let sections = alerts.split("\n### ").skip(1);
    let sections = sections.map(|section| {
        let (name, body) = section.split_once('\n').unwrap();
        let points = body.split("\n- ").skip(1).map(|point| {
            let (label, text) = point.split_once(':').unwrap_or((point, ""));
            (label.to_owned(), text.to_owned())
        });
        (name.to_owned(), points.collect())
    });
    sections.collect()
}

#[test]
fn every_outcome_is_explained() {
    for kind in idem_amqp::executor::ExecutionKind::ALL {
        assert!(DOCS.contains(&format!("`{kind}`")), "{kind}");
    }
}

/// What a worker exports that has charged, refused and recognised orders.
async fn exported() -> Metrics {
    let broker = spawn_blocking(rabbitmq::shared).await.unwrap().unwrap();
    let vhost = format!("operations-{}", std::process::id());
    let (on, name) = (broker.clone(), vhost.clone());
    spawn_blocking(move || on.add_vhost(&name))
        .await
        .unwrap()
        .unwrap();
    let url = broker.vhost_url(&vhost);
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let store = format!("sqlite:{}", folder.path().join("orders.db").display());
    let _worker: Child = Command::new(env!("CARGO_BIN_EXE_order-worker"))
        .args(["--metrics", &address])
        .env("AMQP_URL", &url)
        .env("STORE_URL", store)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();

    let publisher = Publisher::connect(&*url).await.unwrap();
    publisher.declare("orders").await.unwrap();
    for amount in [100, 100, 0] {
        let order =
            json!({"order_id": format!("o-{amount}"), "customer": "c", "amount_cents": amount});
        publisher
            .publish(&Publication::json("orders", &order))
            .await
            .unwrap();
    }
    let ended =
        ["executed", "duplicate", "rejected"].map(|outcome| format!("outcome=\"{outcome}\"}} 1"));
    let scraped = async {
        loop {
            let text = scrape(&address).await.unwrap_or_default();
            if ended.iter().all(|line| text.contains(line)) && text.contains("idem_ready 1") {
                return text;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    parse(
        &timeout(Duration::from_secs(30), scraped)
            .await
            .expect("the worker handles the orders"),
    )
}

/// What a relay exports. Handlers of this worker have no outbox.
async fn exported_by_a_relay() -> Metrics {
    let buckets = PrometheusBuilder::new().set_buckets(&[1.0]).unwrap();
    let recorder = buckets.build_recorder();
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("outbox.db").display());
    let store = SqliteStore::connect(&store).await.unwrap();
    let _relay = {
        let _recorded = metrics::set_default_local_recorder(&recorder);
        OutboxRelay::new(store.outbox(), "amqp://127.0.0.1:1/%2f").unwrap()
    };
    parse(&recorder.handle().render())
}

#[idempotent(key = message_id(), scope = "ledger.book")]
async fn book(_: String) -> Result<(), Failed> {
    Ok(())
}

/// What a worker exports that reads a stream, and is not of queues.
fn exported_by_a_reader() -> Metrics {
    let stream = Queue::stream("ledger");
    let mut exported =
        exported_by(|| Worker::builder(MemoryStore::new()).consume_stream::<book>(stream));
    exported.retain(|name, _| name.starts_with("idem_stream_"));
    exported
}

#[idempotent(key = message_id(), scope = "ledger.book_all", batch = 8)]
async fn book_all(_: Batch<String>) -> Result<(), Failed> {
    Ok(())
}

/// What a worker exports whose handler takes batches, and no other.
fn exported_for_batches() -> Metrics {
    let mut exported =
        exported_by(|| Worker::builder(MemoryStore::new()).consume::<book_all>("ledger"));
    exported.retain(|name, _| name.contains("batch") && !name.contains("publish"));
    exported
}

/// What a worker exports before its first message.
fn exported_by<W>(worker: impl FnOnce() -> W) -> Metrics {
    let buckets = PrometheusBuilder::new().set_buckets(&[1.0]).unwrap();
    let recorder = buckets.build_recorder();
    let _worker = {
        let _recorded = metrics::set_default_local_recorder(&recorder);
        worker()
    };
    parse(&recorder.handle().render())
}

async fn scrape(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = "GET /metrics HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Prometheus' text, after the answer's head.
fn parse(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            metrics.entry(name.into()).or_default().kind = kind.into();
        }
    }
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("idem_"))
        .collect();
    for (metric, selectors) in lines.iter().flat_map(|line| used(line)) {
        let name = metrics
            .keys()
            .filter(|name| metric.starts_with(name.as_str()));
        let name = name.max_by_key(|name| name.len()).unwrap().clone();
        let labels = &mut metrics.get_mut(&name).unwrap().labels;
        for (label, value) in selectors.into_iter().filter(|(label, _)| label != "le") {
            labels.entry(label).or_default().insert(value);
        }
    }
    metrics
}

/// Types and labels' names, as a row of the document has them.
fn described(metrics: &Metrics) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let described = metrics.iter().map(|(name, metric)| {
        let labels = metric.labels.keys().cloned().collect();
        (name.clone(), (metric.kind.clone(), labels))
    });
    described.collect()
}

fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let rows = DOCS.lines().filter(|line| line.starts_with("| `idem_"));
    let rows = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, kind, labels, meaning, action, _] = cells[..] else {
            panic!("six bars: {row}");
        };
        assert!(!meaning.is_empty() && !action.is_empty(), "{row}");
        let unquoted = |text: &str| text.trim_matches('`').to_owned();
        let labels = labels.split(", ").filter(|label| !label.is_empty());
        (
            unquoted(name),
            (kind.to_owned(), labels.map(unquoted).collect()),
        )
    });
    rows.collect()
}

fn base<'a>(name: &str, exported: &'a Metrics) -> Option<&'a Metric> {
    let parts = ["_bucket", "_sum", "_count"].iter();
    let histogram = parts
        .filter_map(|part| name.strip_suffix(part))
        .find_map(|name| {
            exported
                .get(name)
                .filter(|metric| metric.kind == "histogram")
        });
    exported
        .get(name)
        .filter(|metric| metric.kind != "histogram")
        .or(histogram)
}

/// Every metric that a text names, with the labels it is selected by and their values.
fn used(text: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut used: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (at, _) in text.match_indices("idem_") {
        let name: String = word(&text[at..]).into();
        let after = &text[at + name.len()..];
        let selectors = after
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'));
        let selectors = selectors.map_or("", |(selectors, _)| selectors).split(',');
        let selectors = selectors
            .filter_map(|one| one.split_once('='))
            .map(|(label, value)| {
                let value = value.trim_start_matches('~').trim_matches('"');
                (label.trim().to_owned(), value.to_owned())
            });
        used.entry(name).or_default().extend(selectors);
    }
    used
}

/// Every label that a text groups by, or puts into a legend or a summary.
fn grouped_by(text: &str) -> BTreeSet<String> {
    let lists = text
        .match_indices("by (")
        .map(|(at, by)| &text[at + by.len()..]);
    let lists = lists
        .filter_map(|rest| rest.split_once(')'))
        .map(|(list, _)| list);
    let grouped = lists.flat_map(|list| list.split(", ")).map(str::to_owned);
    let shown = text
        .match_indices("{{")
        .map(|(at, _)| text[at + 2..].trim_start());
    let shown = shown.map(|rest| rest.strip_prefix("$labels.").unwrap_or(rest));
    let shown = shown
        .filter(|rest| !rest.starts_with('$'))
        .map(|rest| word(rest).to_owned());
    grouped.chain(shown).collect()
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}
