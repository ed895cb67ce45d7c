//! Looks at dead letters, and puts those that are chosen back so that they execute again.
//!
//! You need it after a bug is fixed, to have the messages handled that failed before. The command
//! `idem dead` does the same from a shell.
//!
//! ```no_run
//! use idem_amqp::dead_letters::{Replayer, Selection};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let replayer = Replayer::new("amqp://127.0.0.1:5672/%2f", "orders.charge.dead")?;
//! let exhausted = Selection::all().reason("exhausted").limit(100);
//! println!("{}", replayer.replay(&exhausted).await?);
//! # Ok(()) }
//! ```

use std::{fmt, sync::Arc};

use crate::{
    connection::{AmqpUrls, Brokers},
    publisher::Publisher,
};

mod error;
mod letter_result;
mod reading;
mod round;
mod selection;
mod stats;

pub use error::ReplayError;
pub use letter_result::{LetterError, LetterOutcome, LetterResult};
use reading::Reading;
use round::{Deed, Round};
pub use selection::Selection;
pub use stats::DeadLetterStats;

pub use crate::wire::DeadLetter;
#[doc(inline)]
pub use idem_core::settlement::Reason;

/// Looks at the letters of a dead-letter queue, and puts chosen ones back into the queues that they
/// came from, where they execute again.
///
/// ```no_run
/// # async fn admin() -> Result<(), idem_amqp::dead_letters::ReplayError> {
/// use idem_amqp::dead_letters::{Reason, Replayer, Selection};
///
/// let replayer = Replayer::new("amqp://127.0.0.1:5672/%2f", "orders.charge.dead")?;
/// let rejected = Selection::all().reason(Reason::Rejected.as_str()).limit(100);
/// for letter in replayer.look(&rejected).await? {
///     println!("{:?}: {:?}", letter.key(), letter.error());
/// }
/// let stats = replayer.replay(&rejected).await?;
/// println!("{stats}");
/// # Ok(()) }
/// ```
///
/// A letter that is sent again starts over: its attempts are counted from 1, and a key in
/// quarantine is free for it. Only a key that is completed stays so: the message is a duplicate,
/// and the worker says so ([`Settled::replay`](crate::worker::Settled::replay)).
///
/// # What it does to the queue
///
/// Each call connects, reads the letters that were there when it began, and returns those that
/// were not chosen, as they were. Letters that come meanwhile, such as replayed ones that fail
/// again, are left for the next call. While a call lasts, the letters that it has read are shown as
/// unacknowledged, and nobody else gets them. Afterwards they may stand in another order.
///
/// To a quorum queue each look at a letter is a return, which counts towards its delivery limit;
/// beyond it the broker drops the letter. The dead-letter queues that a worker declares have no
/// limit that matters. On other queues a letter that comes close to
/// [`assume_delivery_limit`](Self::assume_delivery_limit) is replaced by a copy of itself, at the queue's end.
///
/// # What it does to a letter
///
/// The message goes by the default exchange straight to the queue that it was consumed from, with
/// the publisher's properties and headers and with what idem said about its end; it is persistent,
/// and its time to live is not restored. The letter is acknowledged when the broker has confirmed
/// that the queue has the message. A crash between the two leaves both, with one key: they execute
/// once.
#[derive(Clone)]
pub struct Replayer {
    brokers: Brokers,
    queue: String,
    moved_from: Vec<String>,
    delivery_limit: u64,
    observer: Option<Observer>,
}

type Observer = Arc<dyn Fn(&LetterResult<'_>) + Send + Sync>;

impl Replayer {
    /// A replayer for a dead-letter queue. It connects when it is used.
    ///
    /// # Errors
    /// If a URL is not valid.
    pub fn new(
        urls: impl Into<AmqpUrls>,
        dead_letter_queue: impl Into<String>,
    ) -> Result<Self, ReplayError> {
        Ok(Self {
            brokers: Brokers::parse(&urls.into())?,
            queue: dead_letter_queue.into(),
            moved_from: Vec::new(),
            delivery_limit: 20,
            observer: None,
        })
    }

    /// Names a dead-letter queue out of which RabbitMQ itself has moved letters to this one, for their age,
    /// say; may be called several times.
    ///
    /// A message that died in another queue than its headers say is not believed to be a letter of
    /// idem's, for its publisher can have written them. A dead-letter queue is such another queue, unless
    /// it is named here, or is the `<queue>.dead` of the queue that the headers say. Name no queue to
    /// which others than workers publish.
    pub fn moved_from(mut self, dead_letter_queue: impl Into<String>) -> Self {
        self.moved_from.push(dead_letter_queue.into());
        self
    }

    /// Assumes this delivery limit of the dead-letter queue, for a queue that has a lower one than 20,
    /// which is RabbitMQ 4's own.
    pub fn assume_delivery_limit(mut self, returns: u64) -> Self {
        self.delivery_limit = returns;
        self
    }

    /// Calls this for every chosen letter as it is dealt with: to show progress, or to keep a log.
    pub fn on_letter(
        mut self,
        observer: impl Fn(&LetterResult<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// The chosen letters, which stay where they are: what [`replay`](Self::replay) would send
    /// again. All of them are held in memory.
    ///
    /// # Errors
    /// If the broker cannot be reached, or the queue not be read.
    ///
    /// # Cancel safety
    /// A dropped call returns the letters to their queue.
    pub async fn look(&self, selection: &Selection) -> Result<Vec<DeadLetter>, ReplayError> {
        let mut found = Vec::new();
        self.deal(selection, Deed::Look(&mut found)).await?;
        Ok(found)
    }

    /// Sends the chosen letters again. One whose queue is gone or full stays where it is, and is
    /// counted as failed.
    ///
    /// # Errors
    /// If the broker cannot be reached, or the queue not be read. After
    /// [`ReplayError::Interrupted`] some letters have been sent again; call it again for the rest.
    ///
    /// # Cancel safety
    /// A dropped call returns the letters that were not sent again. One that was being sent may be
    /// in both queues; the copies have one key.
    pub async fn replay(&self, selection: &Selection) -> Result<DeadLetterStats, ReplayError> {
        self.deal(selection, Deed::Replay).await
    }

    /// Drops the chosen letters for good.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    ///
    /// # Cancel safety
    /// A dropped call returns the letters that were not dropped.
    pub async fn discard(&self, selection: &Selection) -> Result<DeadLetterStats, ReplayError> {
        self.deal(selection, Deed::Discard).await
    }

    async fn deal(
        &self,
        selection: &Selection,
        deed: Deed<'_>,
    ) -> Result<DeadLetterStats, ReplayError> {
        let reading = Reading::open(self.brokers.clone(), &self.queue, &self.moved_from).await?;
        let round = Round {
            reading,
            publisher: Publisher::lazy(self.brokers.clone()),
            delivery_limit: self.delivery_limit,
            observer: self.observer.as_deref(),
            stats: DeadLetterStats::default(),
        };
        let stats = round.go(selection, deed).await?;
        tracing::info!(queue = self.queue, %stats, "dealt with dead letters");
        Ok(stats)
    }
}

impl fmt::Debug for Replayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayer")
            .field("brokers", &self.brokers)
            .field("queue", &self.queue)
            .field("moved_from", &self.moved_from)
            .field("delivery_limit", &self.delivery_limit)
            .finish_non_exhaustive()
    }
}
