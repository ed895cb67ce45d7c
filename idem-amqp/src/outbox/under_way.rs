//! The messages that are being published, and for how many more there is room.
//!
//! What must stay true:
//!
//! - A message is not published a second time by this process before the outbox knows what became of the first.
//! - What has failed once shares no connection with what has not.
//! - What is committed here leaves room to what is taken from the outbox.

use std::{collections::HashMap, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture, stream::FuturesUnordered};
use idem_core::{
    handler::{OutgoingContent, OutgoingId},
    store::outbox::{TAKEN_BYTES, Taken},
};
use tokio::time::Instant;

use super::{
    committed::{BYTES, CommittedMessages},
    failure::Failure,
    updates::Updates,
};
use crate::{
    publisher::{Batching, Publisher},
    wire::outgoing::{self, UnreadableHead},
};

/// About so many messages are published before the first of them is confirmed, and as many suspects beside them.
const WINDOW: usize = 1024;

/// What has waited in memory for so long since it was taken or committed is dropped there: soon others may take it.
const IN_MEMORY: Duration = Duration::from_secs(25);

/// Whether a message was taken before, and what became of it is not known to be good.
fn is_suspect(attempts: u32) -> bool {
    attempts > 1
}

/// How publishing one message ended.
pub(super) struct PublishResult {
    pub(super) id: OutgoingId,
    pub(super) in_lane: bool,
    pub(super) attempts: u32,
    pub(super) bytes: usize,
    /// When it was committed, if it was in memory since.
    pub(super) committed: Option<Instant>,
    pub(super) published: Result<(), Failure>,
}

impl PublishResult {
    /// Whether it went by the connection of those that could not be published before.
    pub(super) fn is_of_suspect(&self) -> bool {
        is_suspect(self.attempts)
    }
}

/// What is being published.
pub(super) struct UnderWay {
    publisher: Publisher,
    /// Publishes messages that could not be published before. Each may be what the broker never confirms, or closes
    /// the channel for: on a connection of its own it holds up only the others of these.
    publisher_of_suspects: Publisher,
    pub(super) futures: FuturesUnordered<BoxFuture<'static, PublishResult>>,
    /// How many of these could not be published before: they leave one after the other, each after 30 s at worst.
    suspects: usize,
    bytes: usize,
    /// The messages that are being published, and those of which the outbox has not been told yet: such a message is
    /// taken again when its lease has run out, and not published a second time while nobody knows what became of the
    /// first. With each, how often it was taken by now.
    pub(super) in_hand: HashMap<OutgoingId, u32>,
}

impl UnderWay {
    pub(super) fn new(publisher: Publisher) -> Self {
        Self {
            publisher_of_suspects: publisher.on_another_connection(),
            publisher,
            futures: FuturesUnordered::new(),
            suspects: 0,
            bytes: 0,
            in_hand: HashMap::new(),
        }
    }

    /// How many further messages may be taken now. Suspects are counted apart: they are slow when a queue of theirs is.
    fn room(&self) -> usize {
        if self.bytes >= BYTES {
            return 0;
        }
        let others = self.futures.len() - self.suspects;
        WINDOW.saturating_sub(others.max(self.suspects))
    }

    /// Whether there is room for what was committed here. A quarter of the window is left to what is taken: else what
    /// is due later would never leave under load. Suspects take no place from it, only bytes.
    pub(super) fn admits_committed(&self) -> bool {
        let others = self.futures.len() - self.suspects;
        self.bytes < BYTES - TAKEN_BYTES && others < WINDOW / 4 * 3
    }

    /// How many messages may be taken now, if it is worth it. At most half of the window, so that what is committed
    /// here finds room in a backlog, too.
    pub(super) fn room_to_take(&self) -> Option<usize> {
        let room = self.room();
        (room >= WINDOW / 4).then_some(room.min(WINDOW / 2))
    }

    /// One is published no longer.
    pub(super) fn ended(&mut self, ended: &PublishResult) {
        self.bytes -= ended.bytes;
        self.suspects -= usize::from(ended.is_of_suspect());
    }

    /// These are in hand no more: the outbox knows what became of them, or their lease is to run out.
    pub(super) fn forget(&mut self, updates: &Updates) {
        for id in updates.ids() {
            self.in_hand.remove(&id);
        }
    }

    /// Publishes what is left to who commits it.
    pub(super) fn publish_committed(&mut self, committed: CommittedMessages) {
        for it in committed.messages {
            if it.is_published_by_who_commits() {
                let content = OutgoingContent {
                    message_id: it.message_id,
                    target: it.target,
                    head: it.head,
                    body: it.body,
                };
                let taken = Taken::new(it.id, 0, false, content);
                self.publish(taken, committed.at, Some(committed.at));
            }
        }
    }

    /// Publishes one message; those that are under way share confirms.
    /// `since`: when it was taken or committed.
    pub(super) fn publish(&mut self, taken: Taken, since: Instant, committed: Option<Instant>) {
        let Taken {
            id,
            attempts,
            in_lane,
            content,
            ..
        } = taken;
        if self.in_hand.insert(id, attempts).is_some() {
            return;
        }
        let is_alone = is_suspect(attempts);
        self.suspects += usize::from(is_alone);
        let (publisher, batching) = if is_alone {
            (self.publisher_of_suspects.clone(), Batching::Alone)
        } else {
            (self.publisher.clone(), Batching::Shared)
        };
        let bytes = content.head.len() + content.body.len();
        self.bytes += bytes;
        let publishing = async move {
            let result = match outgoing::publication(content) {
                // Another version of the program knows how.
                Err(error @ UnreadableHead::Version(_)) => {
                    Err(Failure::ThisTime(error.to_string()))
                }
                Err(error @ UnreadableHead::Damaged) => Err(Failure::ForGood(error.to_string())),
                Ok(publication) => {
                    let until = Some(since + IN_MEMORY);
                    match publisher.publish_until(&publication, batching, until).await {
                        Some(result) => result.map_err(|error| Failure::of(&error, is_alone)),
                        None => Err(Failure::Late),
                    }
                }
            };
            PublishResult {
                id,
                in_lane,
                attempts,
                bytes,
                committed,
                published: result,
            }
        };
        self.futures.push(publishing.boxed());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::pending;

    use super::*;
    use crate::connection::{AmqpUrls, Brokers};

    fn under_way(messages: usize, bytes: usize) -> UnderWay {
        let urls = AmqpUrls::from("amqp://127.0.0.1:1/%2f");
        let brokers = Brokers::parse(&urls).unwrap();
        let mut under_way = UnderWay::new(Publisher::lazy(brokers));
        (0..messages).for_each(|_| under_way.futures.push(pending().boxed()));
        under_way.bytes = bytes;
        under_way
    }

    #[tokio::test]
    async fn what_is_committed_leaves_room_to_what_is_due_later() {
        // Messages and bytes that are under way, whether what is committed here is admitted, how many are taken.
        let table = [
            (0, 0, true, Some(WINDOW / 2)),
            (WINDOW / 2, 0, true, Some(WINDOW / 2)),
            (WINDOW / 4 * 3 - 1, 0, true, Some(WINDOW / 4 + 1)),
            (WINDOW / 4 * 3, 0, false, Some(WINDOW / 4)),
            (WINDOW / 4 * 3 + 1, 0, false, None),
            (WINDOW, 0, false, None),
            (1, BYTES - TAKEN_BYTES, false, Some(WINDOW / 2)),
            (1, BYTES, false, None),
        ];
        for (messages, bytes, admits, takes) in table {
            let under_way = under_way(messages, bytes);
            let found = (under_way.admits_committed(), under_way.room_to_take());
            assert_eq!(found, (admits, takes), "{messages} {bytes}");
        }
    }

    #[tokio::test]
    async fn what_was_tried_in_vain_takes_no_room_from_what_is_committed() {
        let mut under_way = under_way(WINDOW / 4 * 3, 0);
        let content = OutgoingContent {
            message_id: "orders:1#0".into(),
            target: "shipping".into(),
            head: Vec::new(),
            body: Vec::new(),
        };
        under_way.suspects = under_way.futures.len();
        assert!(under_way.admits_committed());
        assert_eq!(under_way.room_to_take(), Some(WINDOW / 4));
        // Nor do those that are committed keep what is due from being taken.
        (0..WINDOW / 4 * 3).for_each(|_| under_way.futures.push(pending().boxed()));
        assert!(!under_way.admits_committed());
        assert_eq!(under_way.room_to_take(), Some(WINDOW / 4));
        let id = "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90".parse().unwrap();
        under_way.publish(Taken::new(id, 2, false, content), Instant::now(), None);
        assert_eq!(under_way.suspects, WINDOW / 4 * 3 + 1);
    }

    #[tokio::test]
    async fn what_is_in_hand_is_not_published_again_before_the_outbox_was_told() {
        let id: OutgoingId = "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90".parse().unwrap();
        let content = OutgoingContent {
            message_id: "orders:1#0".into(),
            target: "shipping".into(),
            head: vec![0; 3],
            body: vec![0; 4],
        };
        let mut under_way = under_way(0, 0);
        for attempts in [1, 2] {
            let taken = Taken::new(id, attempts, false, content.clone());
            under_way.publish(taken, Instant::now(), None);
        }
        assert_eq!((under_way.futures.len(), under_way.bytes), (1, 7));
        // By this number what becomes of it is noted down: it is taken twice by now.
        assert_eq!(under_way.in_hand[&id], 2);
        under_way.forget(&Updates {
            confirmed: vec![id],
            ..Updates::default()
        });
        under_way.publish(Taken::new(id, 3, false, content), Instant::now(), None);
        assert_eq!(under_way.futures.len(), 2);
    }
}
