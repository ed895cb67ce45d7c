//! What a worker's log tells of messages that are not handled, at the level `info`.

use std::{env, process::Command, time::Duration};

use idem_amqp::{
    Failed, MemoryStore, Queue, Worker, dead_letters::Selection, executor::ExecutionKind as Kind,
    handler::Enforcement,
};
use idem_tests::{
    bed::{Bed, QUICK},
    journal::eventually,
    laddered::{self, DELAY, laddered},
    log::Log,
    script::{Order, Script, charge},
};
use tokio::{task::spawn_blocking, time::sleep};

use crate::replays::{bury, replayer};

/// The lines with this in them.
fn lines(log: &Log, words: &str) -> Vec<String> {
    let text = log.text();
    let lines = text.lines().filter(|line| line.contains(words));
    lines.map(str::to_owned).collect()
}

fn assert_says(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
}

/// An attempt fails.
///
/// - told: a line in the log for each (WARN), with key, attempt, error and what happens next; ten a second for a queue,
///   then how many were left out. It goes back to its queue, waits in the worker, or goes to the retry ladder
#[tokio::test]
async fn each_failed_attempt_is_a_line_with_its_key_its_error_and_what_happens_next() {
    let log = Log::default();
    let _kept = log.capture();
    let bed = Bed::new().await;
    let script = Script::new(async |_| Err(Failed::retry("the gateway timed out")));
    let worker = bed.charging(MemoryStore::new(), &script);
    bed.order("a").await;
    assert_eq!(bed.dead_letter().await.reason(), "exhausted");
    worker.stop().await;

    let failed = lines(&log, "an attempt failed: ");
    assert_eq!(failed.len(), 2, "{}", log.text());
    for (line, attempt) in failed.iter().zip(["attempt=1", "attempt=2"]) {
        let words = [
            "WARN",
            bed.name(),
            ":a ",
            attempt,
            "the gateway timed out",
            "it goes back to its queue",
            "after=",
        ];
        assert_says(line, &words);
    }
    let last = lines(&log, "the last attempt failed: ");
    assert_eq!(last.len(), 1, "{}", log.text());
    let words = ["WARN", "attempt=3", "it goes to the dead-letter queue"];
    assert_says(&last[0], &words);
    bed.assert_nothing_stuck().await;
}

/// A message is rejected, or a key comes again with other content.
///
/// - told: a line in the log for each (WARN), under the same limit as failed attempts
#[tokio::test]
async fn a_rejection_and_a_reused_key_are_a_line_each() {
    let log = Log::default();
    let _kept = log.capture();
    let bed = Bed::new().await;
    let script = Script::new(async |call| match call.id.as_str() {
        "bad" => Err(Failed::rejected("no such customer")),
        _ => Ok(()),
    });
    let worker = bed.charging(MemoryStore::new(), &script);
    bed.order("bad").await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    bed.order("a").await;
    let mut dearer = Order::new("a");
    dearer.amount_cents += 1;
    bed.json(&dearer).await;
    assert_eq!(bed.dead_letter().await.reason(), "key-reused");
    worker.stop().await;

    let rejected = lines(&log, "the handler rejected a message: ");
    assert_eq!(rejected.len(), 1, "{}", log.text());
    assert_says(
        &rejected[0],
        &["WARN", ":bad ", "attempt=1", "no such customer"],
    );
    let reused = lines(&log, "a key came again with other content: ");
    assert_eq!(reused.len(), 1, "{}", log.text());
    assert_says(&reused[0], &["WARN", ":a ", "dead-letter queue"]);
    bed.assert_nothing_stuck().await;
}

/// What is logged of an attempt that fails in this queue, once.
async fn the_line_of_a_failed_attempt(bed: Bed, queue: Queue, says: &[&str]) {
    let log = Log::default();
    let _kept = log.capture();
    let script = laddered::failing_until(2, DELAY);
    let worker = laddered::start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    worker.stop().await;

    let failed = lines(&log, "an attempt failed: ");
    assert_eq!(failed.len(), 1, "{}", log.text());
    assert_says(&failed[0], &["WARN", bed.name(), ":a ", "attempt=1"]);
    assert_says(&failed[0], &["the gateway timed out", "after="]);
    assert_says(&failed[0], says);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `log_lines::each_failed_attempt_is_a_line_with_its_key_its_error_and_what_happens_next`.
#[tokio::test]
async fn a_failed_attempt_that_waits_in_the_worker_is_a_line() {
    let bed = Bed::new().await;
    // As if the broker dropped what is returned.
    let queue = bed.queue().local_retries().assume_delivery_limit(0);
    the_line_of_a_failed_attempt(bed, queue, &["it is tried again here"]).await;
}

/// Shares the promise of `log_lines::each_failed_attempt_is_a_line_with_its_key_its_error_and_what_happens_next`.
#[tokio::test]
async fn a_failed_attempt_that_goes_to_the_retry_ladder_is_a_line() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    the_line_of_a_failed_attempt(bed, queue, &["it comes again from the retry ladder"]).await;
}

/// Shares the promise of `log_lines::each_failed_attempt_is_a_line_with_its_key_its_error_and_what_happens_next`.
#[tokio::test]
async fn a_failed_attempt_is_a_line_before_it_waits_to_go_back() {
    let log = Log::default();
    let _kept = log.capture();
    let bed = Bed::new().await;
    let script = laddered::failing_until(2, Duration::from_mins(10));
    let queue = bed.queue().local_retries();
    let worker = laddered::start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;
    let failed = eventually("the line of the attempt", || async {
        lines(&log, "an attempt failed: ")
            .pop()
            .ok_or_else(|| log.text())
    });
    assert_says(
        &failed.await,
        &["WARN", ":a ", "attempt=1", "it goes back to its queue"],
    );
    worker.stop().await;
    assert_eq!(
        lines(&log, "an attempt failed: ").len(),
        1,
        "{}",
        log.text()
    );
}

/// Messages are executed, come again, are replayed, or run because their handler is observed.
///
/// - told: nothing at INFO, where a worker says only that it starts and stops. A replay that finds its work done, and a
///   message that runs only because its handler is observed, are lines (WARN) under the same limit
#[tokio::test]
async fn at_info_a_log_says_of_no_message_how_it_ended_only_that_the_worker_starts_and_stops() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    bury(&bed, &store, &["replayed"]).await;
    bed.order("replayed").await;
    replayer(&bed).replay(&Selection::all()).await.unwrap();
    let log = Log::default();
    let _kept = log.capture();
    let script = Script::new(async |call| match (call.id.as_str(), call.attempt) {
        ("fails", 1) => Err(Failed::retry("the gateway timed out")),
        _ => Ok(()),
    });
    let worker = bed.charging(store.clone(), &script);
    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    bed.order("fails").await;
    worker.ended(Kind::Executed, 2).await;
    bed.order("fails").await;
    worker.ended(Kind::Duplicate, 2).await;
    worker.stop().await;

    let observing = QUICK.to_builder().enforcement(Enforcement::Observe);
    let queue = bed.queue().policy(observing.build().unwrap());
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<charge>(queue));
    for (sent, id) in ["observed", "fails", ""].into_iter().enumerate() {
        bed.order(id).await;
        worker.ended(Kind::Observed, sent + 1).await;
    }
    worker.stop().await;

    let said = lines(&log, " INFO ");
    let each_worker = ["connected", "consuming", "draining"];
    assert_eq!(said.len(), 2 * each_worker.len(), "{}", log.text());
    for (line, what) in said.iter().zip(each_worker.into_iter().cycle()) {
        assert_says(line, &[what]);
    }
    let observed = lines(&log, "a message ran because its handler is observed");
    assert_eq!(observed.len(), 2, "{}", log.text());
    for (line, kind) in observed.iter().zip(["duplicate", "keyless"]) {
        assert_says(line, &["WARN", &format!("would_have_been={kind}")]);
    }
    assert_says(&observed[0], &[":fails "]);
    bed.assert_nothing_stuck().await;
}

/// No broker lets the worker in when it starts, and no subscriber of `tracing` is set up.
///
/// - told: one line on stderr says so
///
/// In a process of its own: in this one, other tests have subscribers.
#[tokio::test]
async fn without_a_subscriber_a_worker_says_on_stderr_that_no_broker_lets_it_in() {
    const WITHOUT: &str = "IDEM_TEST_WITHOUT_SUBSCRIBER";
    const THIS: &str =
        "log_lines::without_a_subscriber_a_worker_says_on_stderr_that_no_broker_lets_it_in";
    if env::var_os(WITHOUT).is_some() {
        let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
        let worker = worker.consume::<charge>("orders");
        // Long enough for a second try, also if a busy machine stalls the process. Nobody listens on port 1.
        let stop = sleep(Duration::from_secs(8));
        let ended = worker.run_until("amqp://127.0.0.1:1/%2f", stop).await;
        assert!(ended.is_ok(), "{ended:?}");
        return;
    }
    let alone = || {
        let this = env::current_exe().expect("this program");
        let arguments = ["--exact", THIS, "--nocapture"];
        Command::new(this)
            .args(arguments)
            .env(WITHOUT, "1")
            .output()
    };
    let output = spawn_blocking(alone).await.expect("it does not panic");
    let output = output.expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    let said: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("idem:"))
        .collect();
    let [said] = said[..] else { panic!("{text}") };
    let words = ["127.0.0.1:1", "refused", "it tries again", "subscriber"];
    assert_says(said, &words);
}
