//! `doctor`: findings, and an exit status for scripts.

use idem_amqp::Queue;
use idem_tests::{
    bed::{Bed, dead},
    store_at::StoreAt,
};
use lapin::types::{AMQPValue, FieldTable};
use tempfile::{TempDir, tempdir};

use crate::{command::Idem, tables::execute};

async fn store(folder: &TempDir) -> StoreAt {
    let store = StoreAt::sqlite(&folder.path().join("idem.db"));
    Idem::on(&store).run(&["migrate"]).await.ends(0);
    store
}

#[tokio::test]
async fn what_loses_messages_is_an_error_and_says_so_to_scripts() {
    let (bed, folder) = (Bed::new().await, tempdir().unwrap());
    let name = bed.another("transient");
    bed.also(&name);
    let missing = format!("{name}.missing");
    let idem = Idem::on(&store(&folder).await).and_at(bed.url());
    let ran = idem.run(&["--json", "doctor", &missing]).await;
    ran.ends(1);
    let findings = ran.objects();
    let about = |finding: &&serde_json::Value| finding["subject"] == missing.as_str();
    let error = findings.iter().find(about).unwrap();
    assert_eq!(error["severity"], "error", "{error}");
}

#[tokio::test]
async fn a_queue_that_workers_declare_is_fine() {
    let (bed, folder) = (Bed::new().await, tempdir().unwrap());
    bed.declare(&bed.queue()).await;
    let idem = Idem::on(&store(&folder).await).and_at(bed.url());
    let ran = idem.run(&["doctor", bed.name()]).await;
    let out = ran.ends(0);
    assert!(!out.contains("error"), "{out}");
}

#[tokio::test]
async fn a_queue_that_workers_would_declare_otherwise_is_an_error_if_the_doctor_is_told_so() {
    let (bed, folder) = (Bed::bare().await, tempdir().unwrap());
    for queue in [bed.name(), &dead(bed.name())] {
        bed.declare_foreign(queue, FieldTable::default()).await;
    }
    let idem = Idem::on(&store(&folder).await).and_at(bed.url());
    let ran = idem.run(&["doctor", bed.name()]).await;
    let out = ran.ends(0);
    assert!(out.contains("note taken-for-existing"), "{out}");
    assert!(out.contains("`--declared quorum`"), "{out}");
    let ran = idem
        .run(&["doctor", bed.name(), "--declared", "quorum"])
        .await;
    let out = ran.ends(1);
    assert!(!out.contains("taken-for-existing"), "{out}");
    let refused = out.matches("error declared-otherwise").count();
    assert_eq!(refused, 2, "{out}");
    assert!(out.contains("x-queue-type"), "{out}");
}

#[tokio::test]
async fn queues_that_workers_have_declared_are_as_the_doctor_is_told() {
    let (bed, folder) = (Bed::new().await, tempdir().unwrap());
    bed.declare(&Queue::quorum(bed.name())).await;
    let missing = bed.another("missing");
    let idem = Idem::on(&store(&folder).await).and_at(bed.url());
    let told = ["doctor", bed.name(), &missing, "--declared", "quorum"];
    idem.run(&told).await.ends(0);
    assert_eq!(bed.waiting(&missing).await, None, "it was declared");
}

/// Workers do not start with it either.
#[tokio::test]
async fn a_dead_letter_queue_that_loses_letters_is_an_error_unless_another_one_is_named() {
    let (bed, folder) = (Bed::bare().await, tempdir().unwrap());
    let another = bed.another("failed");
    let mut aged = FieldTable::default();
    aged.insert("x-message-ttl".into(), AMQPValue::LongLongInt(1000));
    bed.declare_foreign(&dead(bed.name()), aged).await;
    for queue in [bed.name(), &another] {
        bed.declare_foreign(queue, FieldTable::default()).await;
    }
    let idem = Idem::on(&store(&folder).await).and_at(bed.url());
    let ran = idem.run(&["doctor", bed.name()]).await;
    assert!(
        ran.ends(1).contains("error dead-letters-message-ttl"),
        "{ran:?}"
    );
    let named = ["doctor", bed.name(), "--dead-letters", &another];
    let ran = idem.run(&named).await;
    assert!(!ran.ends(0).contains("dead-letters"), "{ran:?}");
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_broker_and_a_store_that_are_away_are_findings() {
    let folder = tempdir().unwrap();
    let nowhere = "amqp://127.0.0.1:1/%2f";
    let idem = Idem::on(&store(&folder).await).and_at(nowhere);
    let ran = idem.run(&["doctor", "orders"]).await;
    assert!(ran.ends(1).contains("error broker-unreachable"), "{ran:?}");
    let lost = StoreAt::sqlite(&folder.path().join("lost.db"));
    let ran = Idem::on(&lost)
        .and_at(nowhere)
        .run(&["doctor", "orders"])
        .await;
    assert!(ran.ends(1).contains("error store-unusable"), "{ran:?}");
}

#[tokio::test]
async fn a_doctor_without_a_queue_to_look_at_asks_for_one() {
    let folder = tempdir().unwrap();
    let ran = Idem::on(&store(&folder).await).run(&["doctor"]).await;
    ran.ends(2);
    assert!(ran.err.contains("<QUEUE>"), "{ran:?}");
}

#[tokio::test]
async fn keys_that_nobody_purges_are_a_warning() {
    let (bed, store) = (Bed::new().await, StoreAt::postgres().await);
    bed.declare(&bed.queue()).await;
    let idem = Idem::on(&store).and_at(bed.url());
    idem.run(&["migrate"]).await.ends(0);
    let by_hand = ["keys", "complete", "orders.charge:o-1", "--yes"];
    idem.run(&by_hand).await.ends(0);
    let ran = idem.run(&["doctor", bed.name()]).await;
    assert!(!ran.ends(0).contains("unpurged"), "{ran:?}");
    let ago = "now() - interval '73 hours'";
    execute(
        &store,
        &format!("UPDATE idem_records SET forget_at = {ago}, purge_after = {ago}"),
    )
    .await;
    let ran = idem.run(&["doctor", bed.name()]).await;
    let out = ran.ends(0);
    assert!(out.contains("warning unpurged"), "{out}");
    assert!(out.contains("ended 3 days ago"), "{out}");
}
