//! Publishes what was committed here, and what nobody else has published; one task for each worker or relay.
//!
//! What was committed comes in through a channel, with its bytes; what others have left is taken from the outbox. Both are
//! published at the same time, many per confirm. What must stay true: a message is removed only when the broker has
//! confirmed that a queue has it; no transaction is open while something is published; a broker or a store that is away is
//! asked with growing pauses; what was committed and does not fit in is left to its lease, never waited for.

use std::{
    collections::HashMap,
    error::Error,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use idem_core::{
    ErrorChain, StoreError,
    handler::{Backoff, Outgoing, OutgoingContent, OutgoingId},
    store::outbox::{SharedOutbox, TAKEN_BYTES, Taken, Unpublished},
};
use lapin::types::ReplyCode;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::OutboxCounters;
use crate::{
    error::PublishError,
    publisher::{Batching, Publisher},
    wire::outgoing::{self, UnreadableHead},
};

/// So many messages are published before the first of them is confirmed.
const WINDOW: usize = 1024;

/// So many commits wait for a place in the window. What is more is left to its lease.
const QUEUED: usize = 1024;

/// So many bytes are published before the first message is confirmed, and so many wait for that; and one message more.
const BYTES: usize = 64 << 20;

/// For so long nobody else takes what was taken.
const LEASE: Duration = Duration::from_secs(30);

/// What has waited in memory for so long since it was taken or committed is dropped there: soon others may take it.
const IN_MEMORY: Duration = Duration::from_secs(25);

/// How often it is looked for what others have left, or what has become due.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Until a message is tried again that could not be published.
const AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

/// Until a broker or a store is asked again that is away.
const AWAY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));

/// What one commit has published.
pub(crate) struct Committed {
    messages: Vec<Outgoing>,
    at: Instant,
}

/// Hands on what was committed. Clones hand on to the same.
#[derive(Clone)]
pub(crate) struct Handing {
    to: mpsc::Sender<Committed>,
    /// How much waits.
    bytes: Arc<AtomicUsize>,
    counters: Arc<OutboxCounters>,
}

impl Handing {
    /// What is handed on comes out of this receiver.
    pub(crate) fn new(counters: Arc<OutboxCounters>) -> (Self, mpsc::Receiver<Committed>) {
        let (to, committed) = mpsc::channel(QUEUED);
        let bytes = Arc::default();
        let handing = Self {
            to,
            bytes,
            counters,
        };
        (handing, committed)
    }

    pub(crate) fn hand_on(&self, messages: Vec<Outgoing>) {
        self.counters.committed(messages.len());
        let (at, bytes) = (Instant::now(), bytes(&messages));
        // Full: the broker is slower than the handlers, or away. The lease runs out, and then it is taken.
        if self.bytes.load(Relaxed) >= BYTES {
            return;
        }
        self.bytes.fetch_add(bytes, Relaxed);
        if self.to.try_send(Committed { messages, at }).is_err() {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
    }
}

fn bytes(messages: &[Outgoing]) -> usize {
    messages
        .iter()
        .map(|it| it.head.len() + it.body.len())
        .sum()
}

pub(crate) struct Publishing {
    outbox: SharedOutbox,
    publisher: Publisher,
    committed: mpsc::Receiver<Committed>,
    /// Also so that the channel stays open.
    handing: Handing,
    counters: Arc<OutboxCounters>,
}

/// How publishing one message ended.
struct Ended {
    id: OutgoingId,
    in_lane: bool,
    attempts: u32,
    bytes: usize,
    /// When it was committed, if it was in memory since.
    committed: Option<Instant>,
    published: Result<(), Failure>,
}

/// Why a message is not published.
enum Failure {
    /// It never can be.
    ForGood(String),
    /// The broker refused it, or has closed a channel.
    ThisTime(String),
    /// No broker was there, and it was not sent.
    Away(String),
    /// The connection was lost before the confirm. The broker may have it, and it may be what ends connections.
    Lost(String),
    /// It has waited in memory for too long, and was not sent: whoever takes it publishes it.
    Late,
}

/// What is to be written into the outbox.
#[derive(Default)]
struct Ends {
    confirmed: Vec<OutgoingId>,
    unpublished: Vec<Unpublished>,
    /// Whether the next one of a lane may leave then.
    frees_lane: bool,
}

/// What was written, or was to be.
type WriteResult = (Ends, Result<(), StoreError>);

/// Something that is away, and when it is asked again.
#[derive(Default)]
struct Rest {
    failures: u32,
    until: Option<Instant>,
}

/// What is being published.
struct UnderWay {
    publisher: Publisher,
    /// Of messages that could not be published before. Each may be what the broker never confirms, or closes the channel for:
    /// on a connection of its own it holds up only the others of these.
    publisher_of_suspects: Publisher,
    futures: FuturesUnordered<BoxFuture<'static, Ended>>,
    bytes: usize,
    /// Also that of which the outbox has not been told yet: it is taken again when its lease has run out, and not published a
    /// second time while nobody knows what became of the first.
    /// With each, how often it was taken by now.
    in_hand: HashMap<OutgoingId, u32>,
}

impl UnderWay {
    fn new(publisher: Publisher) -> Self {
        Self {
            publisher_of_suspects: publisher.on_another_connection(),
            publisher,
            futures: FuturesUnordered::new(),
            bytes: 0,
            in_hand: HashMap::new(),
        }
    }

    /// For how many messages there is room.
    fn room(&self) -> usize {
        if self.bytes < BYTES {
            WINDOW.saturating_sub(self.futures.len())
        } else {
            0
        }
    }

    /// Whether there is room for what was committed here. A quarter of the window is left to what is taken: else what is due
    /// later would never leave under load.
    fn admits_committed(&self) -> bool {
        self.bytes < BYTES - TAKEN_BYTES && self.room() > WINDOW / 4
    }

    /// How many messages may be taken now, if it is worth it. At most half of the window, so that what is committed here finds
    /// room in a backlog, too.
    fn room_to_take(&self) -> Option<usize> {
        let room = self.room();
        (room >= WINDOW / 4).then_some(room.min(WINDOW / 2))
    }

    /// The outbox knows what became of these.
    fn told(&mut self, ends: &Ends) {
        for id in ends.ids() {
            self.in_hand.remove(&id);
        }
    }

    /// Publishes what is left to who commits it.
    fn publish_committed(&mut self, committed: Committed) {
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
    fn publish(&mut self, taken: Taken, since: Instant, committed: Option<Instant>) {
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
        let is_alone = attempts > 1;
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
            Ended {
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

/// Whether whoever is first may take it now.
fn is_anybodys(message: &Outgoing) -> bool {
    message.is_due() && !message.is_published_by_who_commits()
}

/// Not all workers look at the same time.
fn between_looks() -> Duration {
    LOOK_EVERY.mul_f64(0.75 + fastrand::f64() / 2.0)
}

impl Publishing {
    pub(crate) fn new(
        outbox: SharedOutbox,
        publisher: Publisher,
        handing: Handing,
        committed: mpsc::Receiver<Committed>,
    ) -> Self {
        Self {
            outbox,
            publisher,
            committed,
            counters: Arc::clone(&handing.counters),
            handing,
        }
    }

    /// Of a process that commits nothing.
    pub(crate) fn alone(
        outbox: SharedOutbox,
        publisher: Publisher,
        counters: Arc<OutboxCounters>,
    ) -> Self {
        let (handing, committed) = Handing::new(counters);
        Self::new(outbox, publisher, handing, committed)
    }

    /// Publishes until it is told to stop, and what was committed by then.
    ///
    /// # Cancel safety
    /// What was being published is published again by others.
    pub(crate) async fn run(mut self, stopping: CancellationToken) {
        // Before what borrows it.
        let outbox = Arc::clone(&self.outbox);
        let mut under_way = UnderWay::new(self.publisher.clone());
        let mut ends = Ends::default();
        let mut writing: Option<BoxFuture<'_, WriteResult>> = None;
        let mut taking: Option<BoxFuture<'_, Result<Vec<Taken>, StoreError>>> = None;
        // Two for the store: a role may have the right to read, and not the right to remove.
        let (mut broker, mut reading, mut removing) =
            (Rest::default(), Rest::default(), Rest::default());
        let mut look_at = Instant::now();
        let mut asked = look_at;
        // Something may have become due while it was looked.
        let mut look_again = false;
        loop {
            let stops = stopping.is_cancelled();
            if writing.is_none() && !ends.is_empty() && removing.is_over() {
                writing = Some(write(&*outbox, std::mem::take(&mut ends)).boxed());
            }
            let idle = under_way.futures.is_empty() && writing.is_none() && taking.is_none();
            let told = ends.is_empty() || !removing.is_over();
            if stops && idle && told && self.committed.is_empty() {
                return;
            }
            let room_to_take = under_way.room_to_take();
            let not_before = [Some(look_at), broker.until, reading.until];
            let not_before = not_before.into_iter().flatten().max().unwrap_or(look_at);
            tokio::select! {
                Some(ended) = under_way.futures.next() => {
                    under_way.bytes -= ended.bytes;
                    match &ended.published {
                        Ok(()) => broker.ends(),
                        Err(Failure::Away(error) | Failure::Lost(error)) => broker.begins("broker", error),
                        Err(Failure::Late) => broker.begins("broker", "it takes no messages"),
                        Err(_) => {}
                    }
                    // It may have been taken again meanwhile, by this process.
                    let attempts = under_way.in_hand.get(&ended.id).copied().unwrap_or(ended.attempts);
                    self.note(Ended { attempts, ..ended }, &broker, &mut ends);
                }
                (written, result) = or_never(&mut writing) => {
                    writing = None;
                    match result {
                        Ok(()) => {
                            removing.ends();
                            under_way.told(&written);
                            if written.frees_lane {
                                (look_at, look_again) = (Instant::now(), true);
                            }
                        }
                        // To write it twice is harmless; what is never written is published again.
                        Err(error) => {
                            removing.begins("store", &ErrorChain::of(&error).to_string());
                            under_way.told(&ends.put_back(written));
                        }
                    }
                }
                taken = or_never(&mut taking) => {
                    taking = None;
                    match taken {
                        Ok(taken) => {
                            reading.ends();
                            // If there was something, there may be more: at once.
                            let rests = taken.is_empty() && !look_again;
                            look_at = Instant::now() + if rests { between_looks() } else { Duration::ZERO };
                            self.counters.taken(taken.len());
                            for it in taken {
                                under_way.publish(it, asked, None);
                            }
                        }
                        Err(error) => reading.begins("store", &ErrorChain::of(&error).to_string()),
                    }
                }
                Some(committed) = self.committed.recv(), if under_way.admits_committed() => {
                    self.handing.bytes.fetch_sub(bytes(&committed.messages), Relaxed);
                    if committed.messages.iter().any(is_anybodys) {
                        (look_at, look_again) = (Instant::now(), true);
                    }
                    // Else it is left to its lease.
                    if broker.is_over() && committed.at.elapsed() < Outgoing::LEASE / 2 {
                        under_way.publish_committed(committed);
                    }
                }
                () = sleep_until(not_before), if !stops && taking.is_none() && room_to_take.is_some() => {
                    look_again = false;
                    asked = Instant::now();
                    taking = room_to_take.map(|room| outbox.take(room, LEASE));
                }
                () = sleep_until(removing.until.unwrap_or(look_at)), if !removing.is_over() && !ends.is_empty() => {}
                () = stopping.cancelled(), if !stops => {}
            }
        }
    }

    /// What is to be written of it.
    fn note(&self, ended: Ended, broker: &Rest, ends: &mut Ends) {
        let Ended { id, attempts, .. } = ended;
        match ended.published {
            Ok(()) => {
                self.counters
                    .confirmed(ended.committed.map(|at| at.elapsed()));
                ends.confirmed.push(id);
                ends.frees_lane |= ended.in_lane;
            }
            Err(Failure::ForGood(error)) => {
                tracing::error!(
                    message = %id, error,
                    "a message of the outbox cannot be published, and waits for `idem outbox retry` or `discard`"
                );
                self.counters.given_up();
                ends.unpublished
                    .push(Unpublished::give_up(id, attempts, error));
            }
            Err(Failure::ThisTime(error)) => {
                let after = AGAIN.wait(attempts.max(1));
                tracing::warn!(message = %id, error, ?after, "a message of the outbox is tried again");
                self.counters.put_back();
                ends.unpublished
                    .push(Unpublished::again(id, attempts, error, after));
            }
            Err(Failure::Late) => {
                let (error, after) = ("it waited too long for the broker", broker.left());
                let untried = Unpublished::untried(id, attempts, error, after);
                ends.unpublished.push(untried);
            }
            Err(Failure::Away(error)) => {
                self.counters.put_back();
                let untried = Unpublished::untried(id, attempts, error, broker.left());
                ends.unpublished.push(untried);
            }
            Err(Failure::Lost(error)) => {
                self.counters.put_back();
                let again = Unpublished::again(id, attempts, error, broker.left());
                ends.unpublished.push(again);
            }
        }
    }
}

impl Failure {
    /// `alone`: no other message was on the channel.
    fn of(error: &PublishError, alone: bool) -> Self {
        let text = ErrorChain::of(error).to_string();
        match error {
            PublishError::Unroutable { .. }
            | PublishError::TooLarge { .. }
            | PublishError::Encode(_) => Self::ForGood(text),
            PublishError::Broker(_) => Self::Away(text),
            PublishError::Unconfirmed(source) if alone && closes_the_channel(&**source) => {
                Self::ForGood(text)
            }
            PublishError::Unconfirmed(source) if is_lost_connection(&**source) => Self::Lost(text),
            _ => Self::ThisTime(text),
        }
    }
}

/// Whether the connection was lost, or closed by the broker's operator: no message is to blame.
fn is_lost_connection(error: &(dyn Error + 'static)) -> bool {
    const CONNECTION_FORCED: ReplyCode = 320;
    let Some(error) = error.downcast_ref::<lapin::Error>() else {
        return false;
    };
    match error.kind() {
        lapin::ErrorKind::IOError(_) | lapin::ErrorKind::MissingHeartbeatError => true,
        lapin::ErrorKind::ProtocolError(error) => error.get_id() == CONNECTION_FORCED,
        _ => false,
    }
}

/// Whether the broker has closed the channel because of what was published: there is no such exchange, it may not be
/// published to, or the message is too long.
fn closes_the_channel(error: &(dyn Error + 'static)) -> bool {
    const FOR_GOOD: [ReplyCode; 3] = [403, 404, 406];
    let Some(error) = error.downcast_ref::<lapin::Error>() else {
        return false;
    };
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => FOR_GOOD.contains(&error.get_id()),
        _ => false,
    }
}

/// Writes what became of messages.
async fn write(outbox: &dyn idem_core::store::outbox::OutboxTable, ends: Ends) -> WriteResult {
    let written = async {
        if !ends.confirmed.is_empty() {
            outbox.remove(&ends.confirmed).await?;
        }
        if !ends.unpublished.is_empty() {
            outbox.note(&ends.unpublished).await?;
        }
        Ok(())
    };
    let written = written.await;
    (ends, written)
}

async fn or_never<T>(future: &mut Option<BoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

impl Ends {
    fn ids(&self) -> impl Iterator<Item = OutgoingId> {
        let unpublished = self.unpublished.iter().map(|it| it.id);
        self.confirmed.iter().copied().chain(unpublished)
    }

    fn is_empty(&self) -> bool {
        self.confirmed.is_empty() && self.unpublished.is_empty()
    }

    /// Keeps what is to be written again, and returns what is not: what was not tried may have been noted down, and then
    /// has the number again with which the next one takes it. Its lease runs out.
    fn put_back(&mut self, mut unwritten: Self) -> Self {
        let untried = |it: &mut Unpublished| !it.was_tried;
        let unpublished = unwritten.unpublished.extract_if(.., untried).collect();
        self.confirmed.extend(unwritten.confirmed);
        self.unpublished.extend(unwritten.unpublished);
        self.frees_lane |= unwritten.frees_lane;
        Self {
            unpublished,
            ..Self::default()
        }
    }
}

impl Rest {
    /// It is away, or still is.
    fn begins(&mut self, what: &str, error: &str) {
        // One outage fails all that are under way.
        if !self.is_over() {
            return;
        }
        if self.failures == 0 {
            tracing::warn!(error, "the {what} is away: the outbox waits for it");
        }
        self.failures += 1;
        self.until = Some(Instant::now() + AWAY.wait(self.failures));
    }

    fn ends(&mut self) {
        *self = Self::default();
    }

    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }

    fn left(&self) -> Duration {
        self.until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::future::pending;
    use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};

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

    #[test]
    fn a_message_is_not_to_blame_for_a_connection_that_is_lost() {
        let protocol = |kind: AMQPErrorKind| {
            lapin::ErrorKind::ProtocolError(AMQPError::new(kind, "as the broker says".into()))
        };
        let io = io::Error::from(io::ErrorKind::ConnectionAborted);
        // Whether it was alone on its channel, the error, what becomes of it.
        let table = [
            (false, lapin::ErrorKind::IOError(Arc::new(io)), "lost"),
            (true, lapin::ErrorKind::MissingHeartbeatError, "lost"),
            (
                true,
                protocol(AMQPHardError::CONNECTIONFORCED.into()),
                "lost",
            ),
            (
                true,
                protocol(AMQPHardError::FRAMEERROR.into()),
                "this time",
            ),
            (false, protocol(AMQPSoftError::NOTFOUND.into()), "this time"),
            (true, protocol(AMQPSoftError::NOTFOUND.into()), "for good"),
        ];
        for (alone, kind, expected) in table {
            let text = format!("{alone} {kind:?}");
            let error = PublishError::Unconfirmed(Box::new(lapin::Error::from(kind)));
            let becomes = match Failure::of(&error, alone) {
                Failure::Away(_) => "away",
                Failure::Lost(_) => "lost",
                Failure::ThisTime(_) => "this time",
                Failure::ForGood(_) => "for good",
                Failure::Late => "late",
            };
            assert_eq!(becomes, expected, "{text}");
        }
    }

    /// Written again, it could put back what somebody else has taken under the same number.
    #[test]
    fn what_was_not_tried_is_not_noted_down_a_second_time() {
        let ids = [
            "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90",
            "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a91",
        ];
        let [tried, untried]: [OutgoingId; 2] = ids.map(|id| id.parse().unwrap());
        let unwritten = Ends {
            unpublished: vec![
                Unpublished::again(tried, 1, "full", Duration::ZERO),
                Unpublished::untried(untried, 1, "no broker", Duration::ZERO),
            ],
            ..Ends::default()
        };
        let mut ends = Ends::default();
        let left = ends.put_back(unwritten);
        assert_eq!(left.ids().collect::<Vec<_>>(), [untried]);
        assert_eq!(ends.ids().collect::<Vec<_>>(), [tried]);
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
        under_way.told(&Ends {
            confirmed: vec![id],
            ..Ends::default()
        });
        under_way.publish(Taken::new(id, 3, false, content), Instant::now(), None);
        assert_eq!(under_way.futures.len(), 2);
    }
}
