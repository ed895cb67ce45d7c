use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::{Mutex, mpsc},
};

use super::{
    super::log_sync::{LogSync, SyncError},
    *,
};

mod answers;

const CHILD: &str = "IDEM_TEST_CHILD_FILE";

/// Runs in a process of its own, started by the test below, and is killed there.
#[tokio::test]
async fn child_completes_and_waits_to_be_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let store = SqliteStore::connect(&path).await.unwrap();
    let lease = acquire(&store, "finished").await;
    complete(&store, &lease).await;
    acquire(&store, "unfinished").await;
    eprintln!("answered");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn what_was_answered_survives_kill_9() {
    let file = File::new();
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg(format!("{module}::child_completes_and_waits_to_be_killed"))
        .env(CHILD, file.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "answered"));
    child.kill().unwrap();
    child.wait().unwrap();

    let store = file.store().await;
    assert!(is_completed(&store, "finished").await);
    assert_matches!(
        store.claim(&request("unfinished")).await,
        Ok(Claim::Held { .. })
    );
    store.advance(MINUTE);
    let taken_over = acquire(&store, "unfinished").await;
    assert_eq!((taken_over.attempt, taken_over.in_doubt), (2, true));
}
