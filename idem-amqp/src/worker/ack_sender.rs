//! Tells the broker what became of a channel's deliveries, in as few frames as possible.
//!
//! `channels` starts one for each channel; `ChannelContext::acknowledge` queues acks, `carry_out` returns. What must
//! stay true:
//!
//! - A settlement goes to the channel that the delivery came on, because its tag means another message elsewhere.
//! - A finished delivery is acknowledged within a few milliseconds, even if one before it runs for long.
//! - What is flushed was sent.

use std::time::Duration;

use lapin::{
    Channel, Error,
    options::{BasicAckOptions, BasicNackOptions},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::window::{Ack, Window};

/// How long a finished delivery waits for the ones before it, so that one frame can settle all of
/// them. Then it is acknowledged by itself: the broker sends a new message only for one that is
/// settled.
const LONGEST_WAIT: Duration = Duration::from_millis(5);
/// How many commands are taken together at most.
const BATCH: usize = 256;

/// Queues acks and returns for one channel, whose [`AckTask`] sends them. Clones reach the same task. After the
/// channel's end they go nowhere: the broker has its messages back already, and sends them again.
#[derive(Debug, Clone)]
pub(super) struct AckSender(mpsc::UnboundedSender<AckCommand>);

/// What is to be done about a delivery, by its tag; or a flush.
#[derive(Debug)]
enum AckCommand {
    /// It is done with.
    Ack(u64),
    /// It goes back to its queue.
    Return(u64),
    /// Whoever waits for this hears when all before it was sent.
    Flush(oneshot::Sender<()>),
}

impl AckSender {
    /// Starts the sender of a channel's acks. `failed` is called, once, if the channel takes no
    /// settlements: the caller has to end the channel, so that its messages come back.
    ///
    /// `prefetch` is the channel's: when half of it waits behind an open delivery, the finished
    /// ones are acknowledged at once.
    pub(super) fn start(
        channel: Channel,
        prefetch: u16,
        failed: impl FnOnce(Error) + Send + 'static,
    ) -> Self {
        let (acks, given) = mpsc::unbounded_channel();
        let task = AckTask {
            channel,
            window: Window::new(),
            // More would leave the worker without work: the broker counts them as outstanding.
            most_blocked: usize::from(prefetch / 2).max(1),
        };
        tokio::spawn(async move {
            if let Err(error) = task.run(given).await {
                failed(error);
            }
        });
        Self(acks)
    }

    /// A sender whose acks go nowhere, for tests without a channel.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn to_nobody() -> Self {
        Self(mpsc::unbounded_channel().0)
    }

    /// Acknowledges a delivery, soon. Only when nothing is lost by it: its completion is committed,
    /// it is confirmed in another queue, or nothing of it is to be kept. Returns at once; whether
    /// the ack arrives, nobody can know.
    pub(super) fn ack(&self, tag: u64) {
        let _ = self.0.send(AckCommand::Ack(tag));
    }

    /// Returns a delivery to its queue, soon. The caller has waited before, so that this is no hot
    /// loop.
    pub(super) fn give_back(&self, tag: u64) {
        let _ = self.0.send(AckCommand::Return(tag));
    }

    /// Waits until everything that was given before has been sent, or the channel takes no more.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let _ = self.0.send(AckCommand::Flush(done));
        // An error means that the task has ended: nothing is left to wait for.
        let _ = flushed.await;
    }
}

/// The only one that settles on this channel.
struct AckTask {
    channel: Channel,
    /// What is finished, and for what of it a frame was sent.
    window: Window,
    /// How many finished deliveries may wait behind an open one.
    most_blocked: usize,
}

impl AckTask {
    /// Takes commands until nobody can give any more, or the channel takes no settlements.
    async fn run(mut self, mut given: mpsc::UnboundedReceiver<AckCommand>) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut straggle_at = None;
        loop {
            // A command that was taken is never dropped half way: only the waiting is raced.
            let patience = straggle_at.unwrap_or_else(Instant::now);
            tokio::select! {
                taken = given.recv_many(&mut batch, BATCH) => {
                    // All senders are gone. A channel that is closed in order was flushed before;
                    // of any other the broker has its messages back.
                    if taken == 0 {
                        return Ok(());
                    }
                    self.send_batch(&mut batch).await?;
                }
                () = sleep_until(patience), if straggle_at.is_some() => self.straggle().await?,
            }
            straggle_at = match self.window.blocked() {
                0 => None,
                // From the first one that waits: later ones must not put it off again and again.
                _ => straggle_at.or_else(|| Some(Instant::now() + LONGEST_WAIT)),
            };
        }
    }

    /// Carries commands out: returns first and singly, then the prefix as one frame.
    async fn send_batch(&mut self, batch: &mut Vec<AckCommand>) -> Result<(), Error> {
        let mut flushes = Vec::new();
        for command in batch.drain(..) {
            match command {
                AckCommand::Ack(tag) => self.window.finish(tag),
                AckCommand::Flush(done) => flushes.push(done),
                AckCommand::Return(tag) => {
                    let requeue = BasicNackOptions {
                        multiple: false,
                        requeue: true,
                    };
                    // Before the prefix, and known to the window, so that no `multiple`
                    // acknowledges a message that is to come back.
                    self.channel.basic_nack(tag, requeue).await?;
                    self.window.mark_sent(tag);
                }
            }
        }
        if let Some(prefix) = self.window.prefix() {
            self.send_ack(prefix).await?;
        }
        // A flush comes before the channel is closed. What was not sent by then would be delivered,
        // and counted, once more.
        if !flushes.is_empty() || self.window.blocked() >= self.most_blocked {
            self.straggle().await?;
        }
        for done in flushes {
            let _ = done.send(());
        }
        Ok(())
    }

    /// Acknowledges those that wait behind an open delivery, each by itself.
    async fn straggle(&mut self) -> Result<(), Error> {
        for straggler in self.window.stragglers() {
            self.send_ack(straggler).await?;
        }
        Ok(())
    }

    /// Hands one frame to the client: every `basic.ack` of a consumed queue is sent here (`stream/place.rs`
    /// acknowledges what it only looks at). An error means that the channel takes no more.
    async fn send_ack(&self, Ack { tag, multiple }: Ack) -> Result<(), Error> {
        self.channel
            .basic_ack(tag, BasicAckOptions { multiple })
            .await
    }
}
