//! `keys list`, `keys show`, `stats` and `purge`.

use std::collections::BTreeSet;

use idem_amqp::{
    AnyStore, Policy, Store as _,
    store::{Release, Write},
};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::command::{Idem, acquire, complete, each_store};

/// One key in each state.
async fn fill(store: &AnyStore) {
    let done = acquire(store, "done").await;
    assert_eq!(complete(store, &done).await, Write::Applied);
    let failed = acquire(store, "failed").await;
    let release = Release::retry_after(Policy::DEFAULT.retention(), "no such customer\u{1b}[2J");
    assert_eq!(
        store.release(&failed, &release).await.unwrap(),
        Write::Applied
    );
    let doubtful = acquire(store, "doubtful").await;
    let quarantined = store.release(&doubtful, &Release::Quarantined).await;
    assert_eq!(quarantined.unwrap(), Write::Applied);
    acquire(store, "held").await;
}

fn names(objects: &[Value]) -> BTreeSet<&str> {
    objects
        .iter()
        .map(|object| {
            object["key"]
                .as_str()
                .unwrap()
                .trim_start_matches("orders.charge:")
        })
        .collect()
}

#[tokio::test]
async fn keys_are_listed_by_state_age_and_scope() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        fill(&store).await;
        let all: &[&str] = &["doubtful", "done", "failed", "held"];
        let table: &[(&[&str], &[&str])] = &[
            (&[], all),
            (&["--state", "failed"], &["doubtful", "failed"]),
            (&["--state", "in-progress"], &["held"]),
            (&["--state", "completed"], &["done"]),
            (&["--older-than", "1h"], &[]),
            (&["--older-than", "0s"], all),
            (&["--scope", "orders.charge"], all),
            (&["--scope", "orders"], &[]),
            (&["--begins", "orders.charge:do"], &["doubtful", "done"]),
        ];
        for (options, expected) in table {
            let listed = idem
                .run(&[&["--json", "keys", "list"], *options].concat())
                .await;
            listed.ends(0);
            let expected = expected.iter().copied().collect();
            assert_eq!(names(&listed.objects()), expected, "{store:?} {options:?}");
        }
        let one = idem.run(&["--json", "keys", "list", "--limit", "1"]).await;
        assert_eq!(one.objects().len(), 1);
    }
}

#[tokio::test]
async fn a_table_tells_people_what_matters_and_nothing_to_their_terminal() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        fill(&store).await;
        let listed = idem.run(&["keys", "list"]).await;
        let out = listed.ends(0);
        assert!(out.starts_with("KEY "), "{out}");
        for expected in [
            "retry in 2d 23h: no such customer\u{fffd}[2J\n",
            "quarantined\n",
            "lease ends in ",
            "remembered for 2d 23h\n",
            "4 keys\n",
        ] {
            assert!(out.contains(expected), "{expected:?}: {out}");
        }
    }
}

#[tokio::test]
async fn a_key_is_shown_with_all_that_is_known() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        fill(&store).await;
        let shown = idem
            .run(&["--json", "keys", "show", "orders.charge:failed"])
            .await;
        shown.ends(0);
        let record = &shown.objects()[0]["record"];
        assert_eq!(record["state"], "failed");
        assert_eq!(record["reason"], "failed");
        assert_eq!(record["attempts"], 1);
        assert_eq!(record["error"], "no such customer\u{1b}[2J");
        assert_eq!(record["owner"].as_str().unwrap().len(), 32);
        let done = idem
            .run(&["--json", "keys", "show", "orders.charge:done"])
            .await;
        assert_eq!(done.objects()[0]["outcome"], json!({"json": 17}));
        let times = &done.objects()[0]["record"];
        let [created, completed] = ["created_at", "completed_at"].map(|at| times[at].as_f64());
        assert!(created.unwrap() > 1e9 && completed >= created, "{times}");
        let in_words = idem.run(&["keys", "show", "orders.charge:done"]).await;
        let completed = in_words
            .ends(0)
            .lines()
            .find(|line| line.starts_with("completed"));
        assert!(completed.unwrap().ends_with("s ago"), "{in_words:?}");
        assert_eq!(done.objects()[0]["record"]["outcome_bytes"], 2);
    }
}

#[tokio::test]
async fn keys_are_counted_by_scope() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        fill(&store).await;
        let stats = idem.run(&["--json", "stats"]).await;
        stats.ends(0);
        let expected = json!({
            "scope": "orders.charge", "in_progress": 1, "overdue": 0, "completed": 1,
            "failed": 2, "quarantined": 1, "forgotten": 0,
        });
        let mut all = vec![expected];
        if store.outbox().is_some() {
            all.push(json!({"outbox": {"waiting": 0, "later": 0, "dead": 0, "oldest": 0.0}}));
        }
        assert_eq!(stats.objects(), all, "{store:?}");
        let table = idem.run(&["stats"]).await;
        let lines = if store.outbox().is_some() { 5 } else { 2 };
        assert_eq!(table.ends(0).lines().count(), lines);
    }
}

#[tokio::test]
async fn a_purge_says_how_many_records_it_has_removed() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        fill(&store).await;
        let purged = idem.run(&["purge"]).await;
        let expected = if store.is_purged() {
            "0 records removed\n"
        } else {
            "this store forgets by itself: there is nothing to purge\n"
        };
        assert_eq!(purged.ends(0), expected);
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_command_line_is_said() {
    let folder = tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("no.db").display());
    let table: &[(&[&str], i32, &str)] = &[
        (
            &["keys", "list"],
            2,
            "`--store URL`, or the variable IDEM_STORE_URL",
        ),
        (
            &["--store", "memory:", "stats"],
            2,
            "lives and ends with its worker",
        ),
        (
            &["--store", &url, "--prefix", "x", "stats"],
            2,
            "`--prefix` means nothing",
        ),
        (
            &["--store", &url, "keys", "show", "nonsense"],
            2,
            "write `SCOPE:PART`",
        ),
        (&["--store", &url, "stats"], 1, "no.db` cannot be opened"),
        (
            &["--store", "mysql://host", "stats"],
            1,
            "`mysql:` is no store",
        ),
    ];
    for (arguments, status, expected) in table {
        let ran = Idem::bare().run(arguments).await;
        ran.ends(*status);
        assert!(ran.err.contains(expected), "{expected}: {ran:?}");
    }
    assert!(
        !folder.path().join("no.db").exists(),
        "no file is made by looking"
    );
}
