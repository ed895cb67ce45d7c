//! What the server tells a store beside its answers: sqlx writes it to the log.

use std::{
    env, io,
    process::{Command, Stdio},
    sync::Mutex,
};

use tracing_subscriber::util::SubscriberInitExt as _;

use super::*;
use crate::store::operator::OperatorStore as _;

/// What this thread logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn capture(&self) -> impl Sized + use<> {
        let log = self.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .set_default()
    }

    fn notices(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let notices = text.lines().filter(|line| line.contains("notice"));
        notices.map(str::to_owned).collect()
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

const ALONE: &str = "IDEM_TEST_ALONE";

/// In a process of its own: what is logged at all depends on the subscribers of all threads.
#[test]
fn a_store_that_opens_a_schema_again_is_told_no_news_by_the_server() {
    let (_, module) = module_path!().split_once("::").unwrap();
    let ended = Command::new(env::current_exe().unwrap())
        .arg("--exact")
        .arg(format!("{module}::child_opens_a_schema_again"))
        .env(ALONE, "")
        .stdout(Stdio::inherit())
        .status();
    assert!(ended.unwrap().success());
}

#[tokio::test]
async fn child_opens_a_schema_again() {
    if env::var_os(ALONE).is_none() {
        return;
    }
    let log = Log::default();
    let _kept = log.capture();
    let database = Database::new();
    for _ in 0..2 {
        drop(database.store().await);
    }
    // As an earlier version of the program has left it: all else is there.
    database.run("DROP TABLE idem_records_audit").await;
    database.store().await.prepare().await.unwrap();
    assert_eq!(log.notices(), [""; 0]);

    // The log would show it.
    database.run("DROP TABLE IF EXISTS nothing").await;
    assert_eq!(log.notices().len(), 1, "{:?}", log.notices());
}
