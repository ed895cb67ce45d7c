//! `marks show`, `set` and `forget`.

use std::time::Duration;

use idem_amqp::{
    AnyStore, Key,
    store::{Owner, StreamClaim, StreamState, StreamStore as _},
};
use serde_json::json;
use tempfile::tempdir;

use crate::command::{Idem, each_store};

const PLACE: [&str; 2] = ["ledger.book", "kafka:postings:3"];

fn key() -> Key {
    Key::new(PLACE[0], PLACE[1]).unwrap()
}

/// A worker reads, and is at 7.
async fn read(store: &AnyStore) {
    let key = key();
    let claimed = store.claim_stream(&key, Owner::new(), Duration::from_mins(1));
    let StreamClaim::Acquired { lease, .. } = claimed.await.unwrap() else {
        panic!("nobody else reads");
    };
    let extended = store.extend_stream(&lease, Some(7), Duration::from_mins(1));
    let _ = extended.await.unwrap();
}

async fn mark(store: &AnyStore) -> Option<u64> {
    store.look_at_stream(&key()).await.unwrap().unwrap().mark
}

fn words<'a>(command: &'a [&'a str], rest: &'a [&'a str]) -> Vec<&'a str> {
    [command, &PLACE, rest].concat()
}

#[tokio::test]
async fn a_mark_is_shown_and_set() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        read(&store).await;
        let shown = idem.run(&words(&["marks", "show"], &[])).await;
        let out = shown.ends(0);
        assert!(out.contains("mark     7\n"), "{out}");
        assert!(out.contains("by a worker, whose lease lasts"), "{out}");

        let refused = idem.run(&words(&["marks", "set"], &["3"])).await;
        refused.ends(4);
        assert_eq!(mark(&store).await, Some(7), "{store:?}");
        let set = idem.run(&words(&["marks", "set"], &["3", "--yes"])).await;
        assert!(set.ends(0).ends_with("goes on at 3\n"), "{set:?}");
        assert_eq!(mark(&store).await, Some(3), "{store:?}");
        // Whoever read is fenced out.
        let shown = idem.run(&words(&["--json", "marks", "show"], &[])).await;
        let expected = json!({"scope": PLACE[0], "stream": PLACE[1], "mark": 3, "beyond_end": false, "lease_seconds": null});
        assert_eq!(shown.objects(), [expected]);

        idem.run(&words(&["marks", "forget"], &["--yes"]))
            .await
            .ends(0);
        assert_eq!(mark(&store).await, None, "{store:?}");
        let shown = idem.run(&words(&["marks", "show"], &[])).await;
        assert!(shown.ends(0).contains("none: it begins where"), "{shown:?}");
    }
}

#[tokio::test]
async fn all_marks_are_listed_or_those_of_a_handler() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        let empty = idem.run(&["marks", "list"]).await;
        assert_eq!(empty.ends(0), "0 marks\n");
        read(&store).await;
        let other = Key::new("ledger.audit", "ledger").unwrap();
        store.set_mark(&other, Some(12)).await.unwrap();
        let all = idem.run(&["marks", "list"]).await;
        let lines: Vec<_> = all.ends(0).lines().collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(
            lines[1].split_ascii_whitespace().collect::<Vec<_>>(),
            ["ledger.audit", "ledger", "12", "by", "nobody"]
        );
        assert!(
            lines[2].starts_with("ledger.book   kafka:postings:3  7     by a worker, whose lease"),
            "{lines:?}"
        );
        assert_eq!(lines[3], "2 marks");
        let one = ["--json", "marks", "list", "--scope", "ledger.audit"];
        let expected = json!({"scope": "ledger.audit", "stream": "ledger", "mark": 12, "beyond_end": false, "lease_seconds": null});
        assert_eq!(idem.run(&one).await.objects(), [expected]);
    }
}

#[tokio::test]
async fn a_mark_beyond_the_end_says_so() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        let barred = StreamState::BEYOND_END + 1_000;
        store.set_mark(&key(), Some(barred)).await.unwrap();
        let shown = idem.run(&words(&["marks", "show"], &[])).await;
        assert!(
            shown.ends(0).contains("1000, which is beyond the end"),
            "{shown:?}"
        );
        idem.run(&words(&["marks", "set"], &["12", "--yes"]))
            .await
            .ends(0);
        assert_eq!(mark(&store).await, Some(12));
    }
}

/// A mistyped name makes no mark.
#[tokio::test]
async fn a_mark_that_nobody_has_is_not_found_and_made_only_if_told() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        for command in [["marks", "show"].as_slice(), &["marks", "forget"]] {
            idem.run(&words(command, &[])).await.ends(3);
        }
        idem.run(&words(&["marks", "set"], &["3", "--yes"]))
            .await
            .ends(3);
        assert_eq!(store.look_at_stream(&key()).await.unwrap(), None);
        let made = idem
            .run(&words(&["marks", "set"], &["3", "--yes", "--new"]))
            .await;
        made.ends(0);
        assert_eq!(mark(&store).await, Some(3));
        let again = idem
            .run(&words(&["marks", "set"], &["9", "--yes", "--new"]))
            .await;
        again.ends(1);
        let set = words(&["--json", "marks", "set"], &["5", "--yes"]);
        let told = idem.run(&set).await.objects();
        assert_eq!((&told[0]["was"], &told[0]["mark"]), (&json!(3), &json!(5)));
    }
    Idem::bare()
        .run(&words(&["marks", "show"], &[]))
        .await
        .ends(2);
}
