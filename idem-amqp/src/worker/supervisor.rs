//! Keeps a worker connected: a lost connection is replaced, with everything on it.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join_all};
use idem_core::Backoff;
use lapin::{
    Connection, ErrorKind,
    protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError},
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::consumer::{Consumer, Stopped};
use crate::{connection::Broker, error::WorkerError, topology::Broken};

const RECONNECT: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Consumers that share a connection.
pub(super) struct Supervisor {
    pub(super) broker: Broker,
    pub(super) consumers: Vec<Arc<Consumer>>,
    pub(super) draining: CancellationToken,
}

impl Supervisor {
    /// Consumes until the worker has drained. A broker that is away is waited for, for ever.
    pub(super) async fn run(&self) -> Result<(), WorkerError> {
        let mut tries = 0;
        let mut first = true;
        while !self.draining.is_cancelled() {
            match self.connect().await {
                None => break,
                Some(Ok(connection)) => {
                    tracing::info!(broker = %self.broker, "connected");
                    tries = 0;
                    self.consume(&connection, first).await?;
                    first = false;
                    // A dead connection cannot be closed, and must not be waited for.
                    let closed = connection.close(200, "done".into());
                    let _ = timeout(CLOSE_TIMEOUT, closed).await;
                }
                Some(Err(source)) if first && is_refusal(&source) => {
                    return Err(WorkerError::Refused {
                        broker: self.broker.to_string(),
                        source: source.into(),
                    });
                }
                Some(Err(error)) => {
                    tracing::warn!(broker = %self.broker, %error, tries, "cannot connect, trying again");
                }
            }
            tries += 1;
            tokio::select! {
                () = sleep(RECONNECT.wait(tries)) => {}
                () = self.draining.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Waits, within the grace period, for handlers whose connection has gone before them.
    pub(super) async fn finish(&self) {
        join_all(
            self.consumers
                .iter()
                .map(|consumer| consumer.finish_running()),
        )
        .await;
    }

    async fn connect(&self) -> Option<lapin::Result<Connection>> {
        tokio::select! {
            connected = self.broker.connect("idem consume") => Some(connected),
            () = self.draining.cancelled() => None,
        }
    }

    /// All consumers, until each has drained or the connection has ended.
    async fn consume(&self, connection: &Connection, first: bool) -> Result<(), WorkerError> {
        let consuming = self.consumers.iter().map(|consumer| async move {
            match consumer.consume(connection, first).await {
                Stopped::Drained => Ok(()),
                Stopped::Disconnected => {
                    tracing::warn!("the connection has ended");
                    Ok(())
                }
                Stopped::Unusable(broken) => Err(unusable(broken)),
            }
        });
        try_join_all(consuming).await.map(|_| ())
    }
}

fn unusable(broken: Broken) -> WorkerError {
    WorkerError::Topology {
        cure: broken.cure().unwrap_or("see the broker's answer"),
        queue: broken.queue,
        source: broken.source.into(),
    }
}

/// Whether the broker answered, and the answer was no.
fn is_refusal(error: &lapin::Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else {
        return false;
    };
    matches!(
        error.kind(),
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)
            | AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED)
    )
}
