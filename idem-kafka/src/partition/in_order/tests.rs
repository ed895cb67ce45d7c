//! How long a call waits for more records.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::reading::tests::{arrived, reading};

const WAIT: Duration = Duration::from_secs(30);

/// The offsets of the next call, and how long it has waited.
async fn next(waiting: &Waiting, reading: &Reading) -> (Vec<u64>, Duration) {
    let began = Instant::now();
    let NextCall::Together(records) = waiting.next(reading).await else {
        panic!("none is handled alone")
    };
    let offsets = records.iter().map(|arrived| arrived.record.offset());
    (offsets.collect(), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_so_long_for_more_records_and_no_longer() {
    let reading = reading(0);
    let waiting = Waiting::new(BatchOptions::new(3).wait(WAIT));
    let push = |offset| waiting.push(arrived(&reading, offset));
    push(0);
    assert_eq!(next(&waiting, &reading).await, (vec![0], WAIT));

    // One that comes meanwhile does not make it wait anew.
    push(1);
    let comes = async {
        sleep(WAIT / 2).await;
        push(2);
    };
    let (called, ()) = tokio::join!(next(&waiting, &reading), comes);
    assert_eq!(called, (vec![1, 2], WAIT));

    // Full, it waits no more.
    push(3);
    let come = async {
        sleep(WAIT / 2).await;
        push(4);
        push(5);
    };
    let (called, ()) = tokio::join!(next(&waiting, &reading), come);
    assert_eq!(called, (vec![3, 4, 5], WAIT / 2));
    (6..10).for_each(push);
    let called = next(&waiting, &reading).await;
    assert_eq!(called, (vec![6, 7, 8], Duration::ZERO));
    assert_eq!(next(&waiting, &reading).await, (vec![9], WAIT));

    // From its first record on, however long that did not come.
    let comes = async {
        sleep(WAIT * 3 / 2).await;
        push(10);
    };
    let (called, ()) = tokio::join!(next(&waiting, &reading), comes);
    assert_eq!(called, (vec![10], WAIT * 5 / 2));

    // Nothing more is read.
    push(11);
    reading.stops.stop_at(99);
    let called = next(&waiting, &reading).await;
    assert_eq!(called, (vec![11], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_nothing_unless_it_is_to() {
    let reading = reading(0);
    let waiting = Waiting::new(BatchOptions::new(3));
    waiting.push(arrived(&reading, 0));
    let called = next(&waiting, &reading).await;
    assert_eq!(called, (vec![0], Duration::ZERO));
}
