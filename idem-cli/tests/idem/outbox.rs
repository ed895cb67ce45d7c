//! `outbox list`, `show`, `retry`, `discard`, `redirect`, `cancel` and `relay`, and what `stats` says of it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::Stdio,
    time::Duration,
};

use idem_amqp::{
    Publication, Queue,
    outbox::{Outbox, OutboxChange, SharedOutbox},
    sqlx::{Connection as _, PgConnection, SqliteConnection},
    store::outbox::Unpublished,
};
use idem_tests::{bed::Bed, store_at::StoreAt};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::command::{Idem, key};

/// An outbox on each database that has one, with two messages of `orders.charge:o-1` that are due, of which the first
/// is dead, and one of `orders.charge:o-2` that leaves tomorrow.
async fn each_outbox(folder: &Path, queue: &str) -> Vec<(SharedOutbox, Idem)> {
    let at = StoreAt::sqlite(&folder.join("idem.db"));
    let store = at.open_sqlite().await;
    let mut db = SqliteConnection::connect(&at.url).await.unwrap();
    for outbox in published(queue) {
        store.publish(&mut db, outbox).await.unwrap();
    }
    let sqlite = (store.outbox(), Idem::on(&at));

    let at = StoreAt::postgres().await;
    let store = at.open_postgres().await;
    let mut db = PgConnection::connect(&at.url).await.unwrap();
    for outbox in published(queue) {
        store.publish(&mut db, outbox).await.unwrap();
    }
    let all = vec![sqlite, (store.outbox(), Idem::on(&at))];
    for (outbox, idem) in &all {
        give_up_the_first(outbox, idem).await;
    }
    all
}

fn published(queue: &str) -> [Outbox; 2] {
    let (first, second) = (Outbox::for_key(&key("o-1")), Outbox::for_key(&key("o-2")));
    let nowhere = Publication::bytes("nowhere", "charged \u{e9}");
    first.publish(nowhere).unwrap();
    first
        .publish(Publication::bytes(queue, vec![0xff, 0]))
        .unwrap();
    let tomorrow = second.after(Duration::from_hours(24));
    tomorrow
        .publish(Publication::bytes(queue, "remind"))
        .unwrap();
    [first, second]
}

async fn give_up_the_first(outbox: &SharedOutbox, idem: &Idem) {
    let first = &listed(idem, &["--key", "orders.charge:o-1#0"]).await[0];
    let id = first["id"].as_str().unwrap().parse().unwrap();
    let attempts = first["attempts"].as_u64().unwrap().try_into().unwrap();
    let given_up = Unpublished::give_up(id, attempts, "no queue is bound");
    outbox.note(&[given_up]).await.unwrap();
}

async fn listed(idem: &Idem, options: &[&str]) -> Vec<Value> {
    let listed = [&["--json", "outbox", "list"], options].concat();
    let listed = idem.run(&listed).await;
    listed.ends(0);
    listed.objects()
}

async fn message_ids(idem: &Idem, options: &[&str]) -> Vec<String> {
    let found = listed(idem, options).await;
    let ids = found.iter().map(|one| one["message_id"].as_str().unwrap());
    let mut ids: Vec<_> = ids.map(|id| id.replace("orders.charge:", "")).collect();
    ids.sort();
    ids
}

async fn id(idem: &Idem, message_id: &str) -> String {
    let found = listed(idem, &["--key", &format!("orders.charge:{message_id}")]).await;
    found[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn messages_are_listed_shown_and_counted() {
    let folder = tempdir().unwrap();
    for (_, idem) in each_outbox(folder.path(), "shipping").await {
        let table: &[(&[&str], &[&str])] = &[
            (&[], &["o-1#0", "o-1#1", "o-2#0"]),
            (&["--state", "waiting"], &["o-1#1"]),
            (&["--state", "later"], &["o-2#0"]),
            (&["--state", "dead"], &["o-1#0"]),
            (&["--key", "orders.charge:o-1"], &["o-1#0", "o-1#1"]),
            (&["--key", "orders.charge:o-3"], &[]),
        ];
        for (options, expected) in table {
            assert_eq!(message_ids(&idem, options).await, *expected, "{options:?}");
        }
        assert_eq!(listed(&idem, &["--limit", "2"]).await.len(), 2);
        let out = idem.run(&["outbox", "list", "--state", "dead"]).await;
        let out = out.ends(0);
        assert!(
            out.contains("nowhere  orders.charge:o-1#0  no queue is bound\n1 message\n"),
            "{out}"
        );
        let later = idem.run(&["outbox", "list", "--state", "later"]).await;
        assert!(later.ends(0).contains("  in 23h 59m  "), "{later:?}");

        let dead = id(&idem, "o-1#0").await;
        let shown = idem.run(&["outbox", "show", &dead]).await;
        let out = shown.ends(0);
        assert!(out.contains("body        10 bytes: charged é\n"), "{out}");
        assert!(out.contains("error       no queue is bound\n"), "{out}");
        let bytes = id(&idem, "o-1#1").await;
        let shown = idem.run(&["outbox", "show", &bytes]).await;
        assert!(
            shown.ends(0).contains("2 bytes that are no text"),
            "{shown:?}"
        );
        let shown = idem.run(&["--json", "outbox", "show", &bytes]).await;
        assert_eq!(shown.objects()[0]["body"], json!({"hex": "ff00"}));
        let none = dead.replace(|c: char| c.is_ascii_hexdigit(), "0");
        idem.run(&["outbox", "show", &none]).await.ends(3);
        idem.run(&["outbox", "show", "nonsense"]).await.ends(2);

        let stats = idem.run(&["--json", "stats"]).await;
        let counts = &stats.objects()[0]["outbox"];
        assert_eq!(
            [&counts["waiting"], &counts["later"], &counts["dead"]],
            [1, 1, 1]
        );
    }
}

#[tokio::test]
async fn messages_are_changed_when_it_is_confirmed_and_it_says_how_many() {
    let folder = tempdir().unwrap();
    for (outbox, idem) in each_outbox(folder.path(), "shipping").await {
        let (dead, due) = (id(&idem, "o-1#0").await, id(&idem, "o-1#1").await);
        for change in [
            &["outbox", "retry", dead.as_str()][..],
            &["outbox", "retry", "--all"],
            &["outbox", "discard", &dead],
            &["outbox", "redirect", &dead, "--queue", "elsewhere"],
            &["outbox", "cancel", "orders.charge:o-2"],
        ] {
            idem.run(change).await.ends(4);
        }
        assert_eq!(message_ids(&idem, &["--state", "dead"]).await, ["o-1#0"]);
        assert_eq!(message_ids(&idem, &["--state", "later"]).await, ["o-2#0"]);

        let retried = idem.run(&["outbox", "retry", &dead, "--yes"]).await;
        assert!(retried.ends(0).ends_with("\n1 message due again\n"));
        idem.run(&["outbox", "retry", &dead, "--yes"]).await.ends(1);
        let retried = idem.run(&["outbox", "retry", "--all", "--yes"]).await;
        assert_eq!(retried.ends(0), "0 messages due again\n");
        give_up_the_first(&outbox, &idem).await;
        let retried = ["--json", "outbox", "retry", "--all", "--yes"];
        let retried = idem.run(&retried).await;
        assert_eq!(
            retried.objects(),
            [json!({"action": "retry", "changed": 1})]
        );

        let options = ["--exchange", "events", "--routing-key", "order.charged"];
        let redirect = [&["outbox", "redirect", &dead, "--yes"], &options[..]].concat();
        let redirected = idem.run(&redirect).await;
        assert!(
            redirected
                .ends(0)
                .ends_with("\n1 message redirected, and due again\n")
        );
        let found = listed(&idem, &["--key", "orders.charge:o-1#0"]).await;
        assert_eq!(found[0]["target"], "events/order.charged");
        let half = ["outbox", "redirect", &dead, "--yes", "--exchange", "events"];
        idem.run(&half).await.ends(2);

        let discard = ["outbox", "discard", &due, "--yes"];
        assert!(
            idem.run(&discard)
                .await
                .ends(0)
                .ends_with("\n1 message discarded\n")
        );
        idem.run(&discard).await.ends(3);
        // What is due cannot be cancelled any more.
        let cancel = ["outbox", "cancel", "orders.charge:o-1", "--yes"];
        idem.run(&cancel).await.ends(3);
        let cancel = ["outbox", "cancel", "orders.charge:o-2", "--yes"];
        assert_eq!(idem.run(&cancel).await.ends(0), "1 message cancelled\n");
        assert_eq!(message_ids(&idem, &[]).await, ["o-1#0"]);
    }
}

#[tokio::test]
async fn a_relay_publishes_until_it_is_told_to_end() {
    let (bed, folder) = (Bed::new().await, tempdir().unwrap());
    let queue = bed.another("shipping");
    bed.declare(&Queue::classic(&queue)).await;
    for (outbox, idem) in each_outbox(folder.path(), &queue).await {
        let retry = OutboxChange::Retry(None);
        assert_eq!(outbox.change(&retry).await.unwrap(), 1);
        let first = id(&idem, "o-1#0").await;
        let redirect = ["outbox", "redirect", &first, "--queue", &queue, "--yes"];
        idem.run(&redirect).await.ends(0);

        let mut command = idem.command(&["outbox", "relay", "--amqp", bed.url()]);
        let mut relay = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(relay.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "publishing until Ctrl-C or SIGTERM\n");
        idem_tests::journal::eventually("only what is to leave later is left", async || {
            let left = message_ids(&idem, &[]).await;
            if left == ["o-2#0"] { Ok(()) } else { Err(left) }
        })
        .await;
        let pid = Pid::from_raw(i32::try_from(relay.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "outbox: committed=0 confirmed=2 taken=2\n");
        assert!(relay.wait().unwrap().success());
        assert_eq!(bed.drain(&queue).await.len(), 2);
    }
}

#[tokio::test]
async fn the_doctor_says_what_is_wrong_with_an_outbox() {
    let (bed, folder) = (Bed::new().await, tempdir().unwrap());
    bed.declare(&bed.queue()).await;
    let queue = bed.another("missing");
    for (_, idem) in each_outbox(folder.path(), &queue).await {
        let idem = idem.and_at(bed.url());
        let asked = idem.run(&["--json", "doctor", bed.name()]).await;
        asked.ends(0);
        let findings = asked.objects();
        let text = |code: &str| {
            let found = findings.iter().find(|one| one["finding"] == code);
            found.unwrap_or_else(|| panic!("no {code}: {findings:?}"))["text"].to_string()
        };
        assert!(text("outbox-dead").contains("orders.charge:o-1#0"));
        assert!(text("outbox-target").contains(&format!("the queue `{queue}` does not exist")));
    }
}

#[tokio::test]
async fn a_store_without_an_outbox_says_so() {
    let ran = Idem::on(&StoreAt::redis().await)
        .run(&["outbox", "list"])
        .await;
    ran.ends(2);
    assert!(ran.err.contains("this store has no outbox"), "{ran:?}");
}
