//! `dead list`, `dead show`, `dead replay` and `dead discard`.

use idem_amqp::{Failed, MemoryStore, executor::ExecutionKind as Kind};
use idem_tests::{
    bed::{Bed, dead, persistent},
    foreign_publisher::{Hostile, Readable, publish_hostile},
    journal::eventually,
    script::Script,
};
use lapin::types::{AMQPValue, FieldTable};

use crate::command::Idem;

/// Leaves one dead letter for each of these orders, rejected.
pub(crate) async fn bury(bed: &Bed, store: &MemoryStore, ids: &[&str]) {
    let rejecting = Script::new(async |_| Err(Failed::rejected("no such customer")));
    let worker = bed.charging(store.clone(), &rejecting);
    for id in ids {
        bed.order(id).await;
    }
    worker.ended(Kind::Rejected, ids.len()).await;
    worker.stop().await;
    until_dead(bed, u32::try_from(ids.len()).unwrap()).await;
}

async fn until_dead(bed: &Bed, expected: u32) {
    eventually("the dead letters are there", async || {
        match bed.waiting(&dead(bed.name())).await {
            Some((waiting, _)) if waiting == expected => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
}

#[tokio::test]
async fn dead_letters_are_listed_shown_and_sent_again() {
    let (bed, store) = (Bed::new().await, MemoryStore::new());
    bury(&bed, &store, &["a", "b"]).await;
    let (idem, queue) = (Idem::at(bed.url()), dead(bed.name()));
    let listed = idem.run(&["dead", "list", &queue]).await;
    let out = listed.ends(0);
    assert!(out.contains("orders.charge:a  rejected"), "{out}");
    assert!(out.contains("no such customer"), "{out}");
    assert!(out.ends_with("2 letters\n"), "{out}");

    let one = ["--json", "dead", "show", &queue, "--key", "orders.charge:b"];
    let shown = idem.run(&one).await;
    shown.ends(0);
    let letters = shown.objects();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0]["reason"], "rejected");
    assert_eq!(letters[0]["queue"], bed.name());
    assert!(letters[0]["body"].as_str().unwrap().contains("\"b\""));
    let none = idem
        .run(&["dead", "show", &queue, "--reason", "exhausted"])
        .await;
    none.ends(3);

    let unconfirmed = idem.run(&["dead", "replay", &queue]).await;
    unconfirmed.ends(4);
    let chosen = [
        "dead",
        "replay",
        &queue,
        "--key",
        "orders.charge:a",
        "--yes",
    ];
    let replayed = idem.run(&chosen).await;
    let out = replayed.ends(0);
    assert!(
        out.starts_with("1 sent orders.charge:a rejected: no such customer"),
        "{out}"
    );
    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    worker.ended(Kind::Executed, 1).await;
    script.assert_effects(["a"]);
    worker.stop().await;
    let left = idem.run(&["--json", "dead", "list", &queue]).await;
    assert_eq!(left.objects().len(), 1, "{left:?}");
}

#[tokio::test]
async fn chosen_letters_are_discarded_and_the_others_stay() {
    let (bed, store) = (Bed::new().await, MemoryStore::new());
    bury(&bed, &store, &["a", "b"]).await;
    let (idem, queue) = (Idem::at(bed.url()), dead(bed.name()));
    let unconfirmed = idem.run(&["dead", "discard", &queue]).await;
    unconfirmed.ends(4);

    let chosen = ["--key", "orders.charge:a", "--yes"];
    let discard = [&["dead", "discard", &queue][..], &chosen].concat();
    let discarded = idem.run(&discard).await;
    let out = discarded.ends(0);
    assert!(
        out.starts_with("1 discarded orders.charge:a rejected: no such customer\n"),
        "{out}"
    );
    assert!(out.contains(" replayed=0 discarded=1 failed=0 "), "{out}");
    let left = idem.run(&["--json", "dead", "list", &queue]).await;
    left.ends(0);
    let keys: Vec<_> = left
        .objects()
        .iter()
        .map(|one| one["key"].clone())
        .collect();
    assert_eq!(keys, ["orders.charge:b"]);

    let rest = ["--json", "dead", "discard", &queue, "--yes"];
    let discarded = idem.run(&rest).await;
    discarded.ends(0);
    assert_eq!(discarded.objects()[0]["discarded"], 1);
    let left = idem.run(&["dead", "list", &queue]).await;
    assert!(left.ends(0).ends_with("0 letters\n"), "{left:?}");
}

#[tokio::test]
async fn a_letter_whose_queue_is_gone_stays_and_is_told_of() {
    let (bed, store) = (Bed::new().await, MemoryStore::new());
    bury(&bed, &store, &["a"]).await;
    bed.delete(bed.name()).await;
    let (idem, queue) = (Idem::at(bed.url()), dead(bed.name()));
    let replayed = idem
        .run(&["--json", "dead", "replay", &queue, "--yes"])
        .await;
    replayed.ends(1);
    assert_eq!(replayed.objects()[0]["failed"], 1);
    assert!(
        replayed.err.contains("is gone: declare it first"),
        "{replayed:?}"
    );
}

/// Somebody else put them there: properties that no AMQP client should have to read.
#[tokio::test]
async fn letters_that_cannot_be_read_are_listed_and_discarded_and_not_sent_again() {
    let bed = Bed::new().await;
    let (idem, queue) = (Idem::at(bed.url()), dead(bed.name()));
    for hostile in Hostile::ALL {
        publish_hostile(bed.url(), &queue, hostile, Readable::default(), b"{}").await;
    }
    until_dead(&bed, 3).await;
    let listed = idem.run(&["--json", "dead", "list", &queue]).await;
    listed.ends(0);
    let letters = listed.objects();
    let reasons: Vec<_> = letters.iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["unreadable"; 3]);
    until_dead(&bed, 3).await;

    let replayed = idem
        .run(&["--json", "dead", "replay", &queue, "--yes"])
        .await;
    replayed.ends(1);
    assert_eq!(replayed.objects()[0]["failed"], 3);
    assert!(replayed.err.contains("discard it"), "{replayed:?}");
    until_dead(&bed, 3).await;

    let discarded = idem
        .run(&["--json", "dead", "discard", &queue, "--yes"])
        .await;
    discarded.ends(0);
    assert_eq!(discarded.objects()[0]["discarded"], 3);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_queue_that_there_is_not_is_an_error() {
    let bed = Bed::new().await;
    let listed = Idem::at(bed.url())
        .run(&["dead", "list", "nowhere.dead"])
        .await;
    listed.ends(1);
    assert!(listed.err.contains("nowhere.dead"), "{listed:?}");
}

/// Its publisher wrote the headers, and the broker dead-lettered it.
#[tokio::test]
async fn a_letter_that_claims_to_come_from_another_queue_is_listed_and_sent_as_the_brokers_own() {
    let bed = Bed::new().await;
    let payments = bed.another("payments");
    let mut forged = FieldTable::default();
    for (name, value) in [
        ("idem-reason", "rejected"),
        ("idem-queue", payments.as_str()),
        ("idem-key", "payments.charge:o-1"),
    ] {
        forged.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let forged = persistent()
        .with_expiration("1".into())
        .with_headers(forged);
    bed.send(bed.name(), b"{}", forged).await;
    let (idem, queue) = (Idem::at(bed.url()), dead(bed.name()));
    until_dead(&bed, 1).await;
    let listed = idem.run(&["--json", "dead", "list", &queue]).await;
    listed.ends(0);
    let letter = &listed.objects()[0];
    assert_eq!(letter["queue"], bed.name(), "{letter}");
    assert_eq!(letter["reason"], "broker-expired", "{letter}");
    assert!(letter["key"].is_null(), "{letter}");
    let moved = ["--json", "dead", "list", &queue, "--moved-from", bed.name()];
    let listed = idem.run(&moved).await;
    listed.ends(0);
    assert_eq!(listed.objects()[0]["queue"], payments.as_str());
    let replayed = idem
        .run(&["--json", "dead", "replay", &queue, "--yes"])
        .await;
    replayed.ends(0);
    assert_eq!(bed.waiting(bed.name()).await, Some((1, 0)));
    bed.drain(bed.name()).await;
    bed.assert_nothing_stuck().await;
}
