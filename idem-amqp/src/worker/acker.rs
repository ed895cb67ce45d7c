//! Tells the broker what became of a channel's deliveries, in as few frames as possible.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lapin::{
    Channel, Error,
    options::{BasicAckOptions, BasicNackOptions},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::window::{Ack, Window};

/// How long a finished delivery waits for the ones before it.
const PATIENCE: Duration = Duration::from_millis(5);
/// How long finished deliveries wait for more to be acknowledged with them. A frame is dear: it wakes the
/// client's I/O thread here, and queue and channel at the broker.
const SHORTLY: Duration = Duration::from_millis(1);
/// So many need not wait, as a share of the prefetch.
const WORTH_A_FRAME: u16 = 8;
/// Verdicts that are taken together.
const BATCH: usize = 256;

/// Sends verdicts to the acker of one channel. After the channel's end they go nowhere: the
/// broker has its messages back already.
#[derive(Debug, Clone)]
pub(super) struct Verdicts {
    given: mpsc::UnboundedSender<Verdict>,
    newest: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Verdict {
    Ack(u64),
    Return(u64),
    Flush(oneshot::Sender<()>),
}

impl Verdicts {
    /// Starts the acker of a channel; `failed` is called if the channel takes no settlements.
    pub(super) fn start(
        channel: Channel,
        prefetch: u16,
        failed: impl FnOnce(Error) + Send + 'static,
    ) -> Self {
        let (verdicts, given) = mpsc::unbounded_channel();
        let newest = Arc::<AtomicU64>::default();
        let acker = Acker {
            channel,
            window: Window::new(),
            newest: Arc::clone(&newest),
            enough: u64::from(prefetch / WORTH_A_FRAME).max(1),
            most_blocked: usize::from(prefetch / 2).max(1),
        };
        tokio::spawn(async move {
            if let Err(error) = acker.run(given).await {
                failed(error);
            }
        });
        Self {
            given: verdicts,
            newest,
        }
    }

    /// Those of a channel that is none.
    #[cfg(feature = "testing")]
    pub(super) fn to_nobody() -> Self {
        Self {
            given: mpsc::unbounded_channel().0,
            newest: Arc::default(),
        }
    }

    /// A delivery has arrived, with the highest tag so far.
    pub(super) fn expect(&self, tag: u64) {
        self.newest.store(tag, Ordering::Relaxed);
    }

    /// The message is done with.
    pub(super) fn ack(&self, tag: u64) {
        let _ = self.given.send(Verdict::Ack(tag));
    }

    /// The message goes back to its queue.
    pub(super) fn give_back(&self, tag: u64) {
        let _ = self.given.send(Verdict::Return(tag));
    }

    /// Waits until every verdict so far has been sent.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let _ = self.given.send(Verdict::Flush(done));
        let _ = flushed.await;
    }
}

struct Acker {
    channel: Channel,
    window: Window,
    /// The highest tag that has arrived.
    newest: Arc<AtomicU64>,
    /// So many in a row are acknowledged at once.
    enough: u64,
    most_blocked: usize,
}

impl Acker {
    async fn run(mut self, mut given: mpsc::UnboundedReceiver<Verdict>) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(BATCH);
        let (mut prefix_at, mut straggle_at) = (None, None);
        loop {
            tokio::select! {
                taken = given.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        return Ok(());
                    }
                    self.settle(&mut batch).await?;
                }
                () = at(prefix_at) => self.send_prefix().await?,
                () = at(straggle_at) => self.straggle().await?,
            }
            let waits = |since: Option<Instant>, patience| {
                since.or_else(|| Some(Instant::now() + patience))
            };
            prefix_at = match self.window.ready() {
                0 => None,
                _ => waits(prefix_at, SHORTLY),
            };
            straggle_at = match self.window.blocked() {
                0 => None,
                _ => waits(straggle_at, PATIENCE),
            };
        }
    }

    /// Returns first and singly, then the prefix as one frame, if there is no reason to wait for more.
    async fn settle(&mut self, batch: &mut Vec<Verdict>) -> Result<(), Error> {
        let mut flushes = Vec::new();
        for verdict in batch.drain(..) {
            match verdict {
                Verdict::Ack(tag) => self.window.finish(tag),
                Verdict::Flush(done) => flushes.push(done),
                Verdict::Return(tag) => {
                    let requeue = BasicNackOptions {
                        multiple: false,
                        requeue: true,
                    };
                    self.channel.basic_nack(tag, requeue).await?;
                    self.window.told(tag);
                }
            }
        }
        let nothing_is_left = self.window.is_past(self.newest.load(Ordering::Relaxed));
        if nothing_is_left || !flushes.is_empty() || self.window.ready() >= self.enough {
            self.send_prefix().await?;
        }
        if !flushes.is_empty() || self.window.blocked() >= self.most_blocked {
            self.straggle().await?;
        }
        for done in flushes {
            let _ = done.send(());
        }
        Ok(())
    }

    async fn send_prefix(&mut self) -> Result<(), Error> {
        match self.window.prefix() {
            Some(prefix) => self.send(prefix).await,
            None => Ok(()),
        }
    }

    async fn straggle(&mut self) -> Result<(), Error> {
        for straggler in self.window.stragglers() {
            self.send(straggler).await?;
        }
        Ok(())
    }

    async fn send(&self, Ack { tag, multiple }: Ack) -> Result<(), Error> {
        self.channel
            .basic_ack(tag, BasicAckOptions { multiple })
            .await
    }
}

/// Never, if there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
