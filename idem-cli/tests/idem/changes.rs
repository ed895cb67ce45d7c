//! `keys release`, `keys forget` and `keys complete`, on every store.

use std::path::Path;

use idem_amqp::{
    AnyStore, Key, Policy, Store as _,
    handler::Outcome,
    sqlx::{PgConnection, SqliteConnection},
    store::{Begun, Claim, ClaimRequest, Completion, Finish, Finished, TransactionalStore, Write},
};
use idem_servers::free_ports;
use idem_tests::{
    journal::eventually,
    store_at::{InFront, StoreAt},
};
use tempfile::tempdir;

use crate::command::{Idem, Ran, acquire, ask, complete, each_store, key};

#[tokio::test]
async fn a_release_fences_the_holder_out() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        let holder = acquire(&store, "o-1").await;
        let ran = idem
            .run(&["keys", "release", "orders.charge:o-1", "--yes"])
            .await;
        let out = ran.ends(0);
        assert!(
            out.starts_with("orders.charge:o-1 is in_progress, lease ends in "),
            "{out}"
        );
        assert!(out.ends_with("released: its next copy runs\n"), "{out}");
        assert_eq!(complete(&store, &holder).await, Write::Fenced, "{store:?}");
        let next = acquire(&store, "o-1").await;
        assert!(next.token > holder.token && next.in_doubt);
        let shown = idem.run(&["keys", "show", "orders.charge:o-1"]).await;
        let out = shown.ends(0);
        let audit = format!("ago, was in_progress under token {}\n", holder.token);
        assert!(
            out.contains("\nrelease by ") && out.ends_with(&audit),
            "{out}"
        );
    }
}

#[tokio::test]
async fn a_forgotten_key_runs_again() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        let holder = acquire(&store, "o-1").await;
        assert_eq!(complete(&store, &holder).await, Write::Applied);
        let ran = idem
            .run(&["keys", "forget", "orders.charge:o-1", "--yes"])
            .await;
        let out = ran.ends(0);
        assert!(out.contains("is completed, remembered for 2d 23h"), "{out}");
        assert!(
            out.contains("workers with a cache (`Cached`) may answer"),
            "{out}"
        );
        assert_eq!(acquire(&store, "o-1").await.attempt, 1, "{store:?}");
    }
}

#[tokio::test]
async fn a_completed_key_makes_copies_duplicates() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        let holder = acquire(&store, "o-1").await;
        // Its digits are more than a float has.
        let outcome = r#"{"receipt":12345678901234567890123}"#;
        let by_hand = [
            "keys",
            "complete",
            "orders.charge:o-1",
            "--outcome",
            outcome,
            "--yes",
        ];
        idem.run(&by_hand).await.ends(0);
        assert_eq!(complete(&store, &holder).await, Write::Fenced, "{store:?}");
        match ask(&store, "o-1").await {
            Claim::Completed { outcome: told, .. } => {
                assert_eq!(told.as_bytes(), outcome.as_bytes());
            }
            other => panic!("{other:?}"),
        }
        let again = idem.run(&by_hand).await;
        again.ends(1);
        assert!(again.err.contains("is completed already"), "{again:?}");
        let release = idem
            .run(&["keys", "release", "orders.charge:o-1", "-y"])
            .await;
        release.ends(1);
        assert!(
            release.err.contains("`idem keys forget` lets"),
            "{release:?}"
        );
    }
}

/// What is not seen by the key alone is said before anything is done, also if nothing is done then.
#[tokio::test]
async fn what_the_key_alone_does_not_show_is_said_beforehand() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        let number: Key = "orders.charge:stream~7".parse().unwrap();
        let request = ClaimRequest::new(number, &Policy::DEFAULT);
        let claim = store.claim(&request).await.unwrap();
        assert!(matches!(claim, Claim::Acquired(_)), "{claim:?}");
        acquire(&store, "o-1").await;
        let (waits, own_table) = (
            "a sequence waits at a number",
            "(`recorded_by`) asks that table",
        );
        for (command, name, said) in [
            ("forget", "orders.charge:stream~7", Some(waits)),
            ("forget", "orders.charge:o-1", None),
            ("complete", "orders.charge:o-1", Some(own_table)),
            ("release", "orders.charge:stream~7", None),
        ] {
            let ran = idem.run(&["keys", command, name]).await;
            let out = ran.ends(4);
            for warning in [waits, own_table] {
                let expected = said == Some(warning);
                assert_eq!(out.contains(warning), expected, "{command} {name}: {out}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_changed_that_is_not_confirmed() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        let holder = acquire(&store, "o-1").await;
        for command in ["release", "forget", "complete"] {
            let ran = idem.run(&["keys", command, "orders.charge:o-1"]).await;
            ran.ends(4);
            assert!(ran.err.contains("give `--yes`"), "{ran:?}");
        }
        assert_eq!(complete(&store, &holder).await, Write::Applied, "{store:?}");
        let shown = idem
            .run(&["--json", "keys", "show", "orders.charge:o-1"])
            .await;
        assert_eq!(shown.objects()[0]["audit"], serde_json::json!([]));
    }
}

#[tokio::test]
async fn a_key_that_there_is_not_is_not_found() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        for command in ["show", "release", "forget"] {
            let mut arguments = vec!["keys", command, "orders.charge:o-2"];
            arguments.extend((command != "show").then_some("--yes"));
            let ran: Ran = idem.run(&arguments).await;
            ran.ends(3);
            assert!(
                ran.err.contains("has no key `orders.charge:o-2`"),
                "{ran:?}"
            );
        }
        let never = ["keys", "complete", "orders.charge:o-2", "--yes", "--json"];
        let ran = idem.run(&never).await;
        ran.ends(0);
        assert_eq!(ran.objects()[0]["state_before"], serde_json::Value::Null);
        assert!(matches!(ask(&store, "o-2").await, Claim::Completed { .. }));
    }
}

/// What comes of an atomic handler whose key is taken away while its transaction is open.
async fn commit_after<Tx>(
    store: impl TransactionalStore<Tx>,
    idem: &Idem,
    command: &str,
) -> Finished {
    let request = ClaimRequest::new(key(command), &Policy::DEFAULT);
    let Begun::Acquired(lease, transaction) = store.begin(&request).await.unwrap() else {
        panic!("the key is new")
    };
    let name = lease.key.as_str();
    idem.run(&["keys", command, name, "--yes"]).await.ends(0);
    let outcome = Outcome::new("late");
    let complete = Finish::Complete(Completion::new(
        &lease,
        &outcome,
        Policy::DEFAULT.retention(),
    ));
    store.finish(transaction, complete).await.unwrap()
}

#[tokio::test]
async fn an_atomic_handler_that_is_fenced_out_commits_nothing() {
    let folder = tempdir().unwrap();
    let sqlite = StoreAt::sqlite(&folder.path().join("idem.db"));
    let postgres = StoreAt::postgres().await;
    for command in ["release", "forget", "complete"] {
        let (store, idem) = (sqlite.open_sqlite().await, Idem::on(&sqlite));
        let ended = commit_after::<SqliteConnection>(store, &idem, command).await;
        assert_eq!(ended, Finished::Fenced, "{command}");
        let (store, idem) = (postgres.open_postgres().await, Idem::on(&postgres));
        let ended = commit_after::<PgConnection>(store, &idem, command).await;
        assert_eq!(ended, Finished::Fenced, "{command}");
    }
}

/// A key that a worker has completed, and that the cache knows which it shares with others.
async fn completed_behind_a_cache(folder: &Path) -> (AnyStore, Idem) {
    let cache = StoreAt::redis().await;
    let at = StoreAt::sqlite(&folder.join("idem.db")).behind(InFront::redis(&cache));
    let store = AnyStore::new(at.cached(at.open_sqlite().await));
    let idem = Idem::on(&at).behind(&cache);
    // When the first one is completed, the cache may not have told its time yet.
    for id in ["o-0", "o-1"] {
        let lease = acquire(&store, id).await;
        assert_eq!(complete(&store, &lease).await, Write::Applied);
    }
    eventually("the cache knows the key", async || {
        let shown = idem.run(&SHOW).await;
        let knows = shown.out.contains("knows it as completed");
        if knows { Ok(()) } else { Err(shown) }
    })
    .await;
    (store, idem)
}

const SHOW: [&str; 3] = ["keys", "show", "orders.charge:o-1"];
const FORGET: [&str; 4] = ["keys", "forget", "orders.charge:o-1", "--yes"];

#[tokio::test]
async fn a_key_is_forgotten_in_the_cache_that_workers_share_too() {
    let folder = tempdir().unwrap();
    let (store, idem) = completed_behind_a_cache(folder.path()).await;
    let as_json = [&SHOW[..], &["--json"]].concat();
    assert_eq!(idem.run(&as_json).await.objects()[0]["cached"], true);
    let ran = idem.run(&FORGET).await;
    assert!(!ran.ends(0).contains("workers with a cache"), "{ran:?}");
    let shown = idem.run(&SHOW).await;
    assert!(shown.ends(3).contains("does not know it"), "{shown:?}");
    assert_eq!(acquire(&store, "o-1").await.attempt, 1);
}

#[tokio::test]
async fn what_the_cache_alone_knows_can_be_forgotten() {
    let folder = tempdir().unwrap();
    let (store, idem) = completed_behind_a_cache(folder.path()).await;
    let without = Idem::on(&StoreAt::sqlite(&folder.path().join("idem.db")));
    let ran = without.run(&FORGET).await;
    assert!(ran.ends(0).contains("if they share one, say"), "{ran:?}");
    let shown = idem.run(&SHOW).await;
    assert!(shown.ends(3).contains("knows it as completed"), "{shown:?}");
    let copy = ask(&store, "o-1").await;
    assert!(matches!(copy, Claim::Completed { .. }), "{copy:?}");
    let ran = idem.run(&FORGET).await;
    assert!(ran.ends(0).contains("known to the cache alone"), "{ran:?}");
    assert_eq!(acquire(&store, "o-1").await.attempt, 1);
    let ran = idem.run(&["keys", "forget", "orders.charge:o-2", "--yes"]);
    ran.await.ends(3);
}

#[tokio::test]
async fn nothing_is_done_while_the_cache_is_away() {
    let folder = tempdir().unwrap();
    let (_store, idem) = completed_behind_a_cache(folder.path()).await;
    let [port] = free_ports().unwrap();
    let away = StoreAt::redis().await.by(port);
    let behind = || Idem::on(&StoreAt::sqlite(&folder.path().join("idem.db")));
    behind().behind(&away).run(&FORGET).await.ends(1);
    let shown = idem.run(&SHOW).await;
    assert!(shown.ends(0).contains("completed"), "{shown:?}");
    let half = ["--cache", "redis://localhost", "keys", "list"];
    behind().run(&half).await.ends(2);
}
