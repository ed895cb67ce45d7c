//! One number that fails again and again, several workers, and thousands of numbers that pass it;
//! each message comes twice.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use futures_util::future::join_all;
use idem_core::{
    Key, Outcome, Policy,
    message::{SequenceKey, SequencePlace},
    store::{Claim, ClaimRequest, OutOfPlace, Owner, Release, SequenceStore, Write},
};
use idem_testing::conformance::SequenceHarness;
use tokio::sync::Mutex;

/// The number that is delayed.
const DELAYED: u64 = 17;
/// How many numbers may pass it.
const WINDOW: u32 = 1000;
const WORKERS: usize = 8;

/// Numbers up to this one are run, more than may pass the delayed one: those wait for it.
pub(crate) fn while_many_pass<H: SequenceHarness>(many: u64) {
    crate::stores::runtime::<H>().block_on(async {
        let harness = H::start().await;
        let unique = u128::from_be_bytes(*Owner::new().as_bytes());
        let sequence = SequenceKey::from(Key::new("delayed", unique).expect("it is short"));
        let queue = Arc::new(Queue::of(many));
        let workers = (0..WORKERS).map(|_| {
            let (store, sequence) = (harness.store(), sequence.clone());
            work(store, sequence, Arc::clone(&queue), many)
        });
        join_all(workers).await;
        for (number, runs) in (0..).zip(&queue.runs) {
            assert_eq!(runs.load(Relaxed), 1, "number {number}");
        }
        let tries = queue.delays.load(Relaxed);
        assert!(tries >= 20, "the delayed number was tried {tries} times");
    });
}

struct Queue {
    messages: Mutex<std::collections::VecDeque<u64>>,
    runs: Vec<AtomicU32>,
    /// How often the delayed number has failed.
    delays: AtomicU32,
    /// How many have passed it.
    passed: AtomicU32,
}

impl Queue {
    /// Every message twice, the second copy some time after the first.
    fn of(many: u64) -> Self {
        let messages = (0..many + 50).flat_map(|number| {
            let copy = number.checked_sub(50);
            [Some(number), copy].into_iter().flatten()
        });
        Self {
            messages: Mutex::new(messages.filter(|number| *number < many).collect()),
            runs: (0..many).map(|_| AtomicU32::new(0)).collect(),
            delays: AtomicU32::new(0),
            passed: AtomicU32::new(0),
        }
    }

    /// Delivered again, behind some of the others.
    async fn returns(&self, number: u64) {
        let mut messages = self.messages.lock().await;
        let place = messages.len().min(40);
        messages.insert(place, number);
    }
}

async fn work<S: SequenceStore>(store: S, sequence: SequenceKey, queue: Arc<Queue>, many: u64) {
    loop {
        let next = queue.messages.lock().await.pop_front();
        let Some(number) = next else { break };
        let place = SequencePlace::new(sequence.clone(), number).window(WINDOW);
        let request = ClaimRequest::in_sequence(place, &Policy::DEFAULT);
        match store.claim(&request).await.expect("the store is there") {
            Claim::Acquired(lease) => {
                let enough =
                    u64::from(queue.passed.load(Relaxed)) >= u64::from(WINDOW).min(many / 2);
                if number == DELAYED && !enough {
                    queue.delays.fetch_add(1, Relaxed);
                    let failed = store.release(&lease, &Release::failed("not yet")).await;
                    assert_eq!(failed.expect("the store is there"), Write::Applied);
                    queue.returns(number).await;
                    continue;
                }
                let index = usize::try_from(number).expect("it is small");
                queue.runs[index].fetch_add(1, Relaxed);
                queue.passed.fetch_add(1, Relaxed);
                let done = store
                    .complete(&lease, &Outcome::default(), request.retention)
                    .await;
                assert_eq!(done.expect("the store is there"), Write::Applied);
            }
            Claim::Completed { .. } => {}
            Claim::OutOfPlace(OutOfPlace::Ahead { .. }) | Claim::Held { .. } => {
                queue.returns(number).await;
                tokio::task::yield_now().await;
            }
            other => panic!("number {number}: {other:?}"),
        }
    }
}
