//! Tells the broker what became of a channel's deliveries, in as few frames as possible.

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

/// How long a finished delivery waits for the ones before it.
const LONGEST_WAIT: Duration = Duration::from_millis(5);
/// Acks that are taken together.
const BATCH: usize = 256;

/// Sends acks and returns on one channel. After the channel's end they go nowhere: the
/// broker has its messages back already.
#[derive(Debug, Clone)]
pub(super) struct AckSender(mpsc::UnboundedSender<AckCommand>);

#[derive(Debug)]
enum AckCommand {
    Ack(u64),
    Return(u64),
    Flush(oneshot::Sender<()>),
}

impl AckSender {
    /// Starts the sender of acks of a channel; `failed` is called if the channel takes no settlements.
    pub(super) fn start(
        channel: Channel,
        prefetch: u16,
        failed: impl FnOnce(Error) + Send + 'static,
    ) -> Self {
        let (acks, given) = mpsc::unbounded_channel();
        let task = AckTask {
            channel,
            window: Window::new(),
            most_blocked: usize::from(prefetch / 2).max(1),
        };
        tokio::spawn(async move {
            if let Err(error) = task.run(given).await {
                failed(error);
            }
        });
        Self(acks)
    }

    /// Those of a channel that is none.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn to_nobody() -> Self {
        Self(mpsc::unbounded_channel().0)
    }

    /// The message is done with.
    pub(super) fn ack(&self, tag: u64) {
        let _ = self.0.send(AckCommand::Ack(tag));
    }

    /// The message goes back to its queue.
    pub(super) fn give_back(&self, tag: u64) {
        let _ = self.0.send(AckCommand::Return(tag));
    }

    /// Waits until everything so far has been sent.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let _ = self.0.send(AckCommand::Flush(done));
        let _ = flushed.await;
    }
}

struct AckTask {
    channel: Channel,
    window: Window,
    most_blocked: usize,
}

impl AckTask {
    async fn run(mut self, mut given: mpsc::UnboundedReceiver<AckCommand>) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut straggle_at = None;
        loop {
            let patience = straggle_at.unwrap_or_else(Instant::now);
            tokio::select! {
                taken = given.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        return Ok(());
                    }
                    self.settle(&mut batch).await?;
                }
                () = sleep_until(patience), if straggle_at.is_some() => self.straggle().await?,
            }
            straggle_at = match self.window.blocked() {
                0 => None,
                _ => straggle_at.or_else(|| Some(Instant::now() + LONGEST_WAIT)),
            };
        }
    }

    /// Returns first and singly, then the prefix as one frame.
    async fn settle(&mut self, batch: &mut Vec<AckCommand>) -> Result<(), Error> {
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
                    self.channel.basic_nack(tag, requeue).await?;
                    self.window.told(tag);
                }
            }
        }
        if let Some(prefix) = self.window.prefix() {
            self.send(prefix).await?;
        }
        if !flushes.is_empty() || self.window.blocked() >= self.most_blocked {
            self.straggle().await?;
        }
        for done in flushes {
            let _ = done.send(());
        }
        Ok(())
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
