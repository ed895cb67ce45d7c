//! How long a call waits for more messages.

use std::time::Duration;

use lapin::BasicProperties;
use tokio::time::sleep;

use super::*;
use crate::{
    topology::Queue,
    wire::delivery::{Delivery, Origin},
};

impl WaitingDelivery {
    /// The first message of a stream, the second, and so on, delivered for the first time.
    pub(in crate::worker) fn numbered(tag: u64) -> Self {
        let delivery = Delivery::new(Origin {
            unreadable: None,
            comes_back_to: None,
            partition: None,
            queue: "ledger".into(),
            exchange: "".into(),
            routing_key: "ledger".into(),
            redelivered: false,
            properties: BasicProperties::default(),
        });
        Self {
            tag,
            end: Some(tag),
            arrival: Arrival::new(delivery, Vec::new(), &Queue::stream("ledger")),
            span: Span::none(),
            came: Instant::now(),
        }
    }
}

const WAIT: Duration = Duration::from_secs(30);

fn arrives(waiting: &WaitingDeliveries, tags: impl IntoIterator<Item = u64>) {
    for tag in tags {
        assert!(waiting.arrives(WaitingDelivery::numbered(tag)).is_ok());
    }
}

/// The tags of the next call, if anything waits, and how long it has waited.
async fn next(waiting: &WaitingDeliveries) -> (Vec<u64>, Duration) {
    let began = Instant::now();
    let tags = match waiting.next().await {
        None => Vec::new(),
        Some(NextCall::Together(deliveries)) => deliveries.iter().map(|one| one.tag).collect(),
        Some(NextCall::Alone(delivery)) => panic!("{} is handled alone", delivery.tag),
    };
    (tags, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_so_long_for_more_messages_and_no_longer() {
    let waiting = WaitingDeliveries::new(BatchOptions::new(3).wait(WAIT), 16);
    arrives(&waiting, [1]);
    assert_eq!(next(&waiting).await, (vec![1], WAIT));

    // One that comes meanwhile does not make it wait anew.
    arrives(&waiting, [2]);
    let comes = async {
        sleep(WAIT / 2).await;
        arrives(&waiting, [3]);
    };
    let (called, ()) = tokio::join!(next(&waiting), comes);
    assert_eq!(called, (vec![2, 3], WAIT));

    // Full, it waits no more.
    arrives(&waiting, [4]);
    let come = async {
        sleep(WAIT / 2).await;
        arrives(&waiting, [5, 6]);
    };
    let (called, ()) = tokio::join!(next(&waiting), come);
    assert_eq!(called, (vec![4, 5, 6], WAIT / 2));
    arrives(&waiting, 7..=9);
    assert_eq!(next(&waiting).await, (vec![7, 8, 9], Duration::ZERO));
}

/// Else its wait would have begun before its first message came.
#[tokio::test(start_paused = true)]
async fn no_call_waits_while_there_is_no_message_for_it() {
    let waiting = WaitingDeliveries::new(BatchOptions::new(3).wait(WAIT), 16);
    arrives(&waiting, [1]);
    assert_eq!(next(&waiting).await, (vec![1], WAIT));
    assert_eq!(next(&waiting).await, (vec![], Duration::ZERO));
    // Somebody has to be started for the next one.
    assert!(matches!(
        waiting.arrives(WaitingDelivery::numbered(2)),
        Ok(true)
    ));
    assert!(matches!(
        waiting.arrives(WaitingDelivery::numbered(3)),
        Ok(false)
    ));
    assert_eq!(next(&waiting).await, (vec![2, 3], WAIT));
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_more_than_the_broker_sends_ahead() {
    let waiting = WaitingDeliveries::new(BatchOptions::new(64).wait(WAIT), 2);
    arrives(&waiting, [1]);
    let comes = async {
        sleep(WAIT / 2).await;
        arrives(&waiting, [2]);
    };
    let (called, ()) = tokio::join!(next(&waiting), comes);
    assert_eq!(called, (vec![1, 2], WAIT / 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_nothing_unless_it_is_to() {
    let waiting = WaitingDeliveries::new(BatchOptions::new(3), 16);
    arrives(&waiting, [1]);
    assert_eq!(next(&waiting).await, (vec![1], Duration::ZERO));
}
