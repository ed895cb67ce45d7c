//! Notices what happens to a connection.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};
use lapin::{Connection, Error, ErrorKind, Event};
use tokio::time::timeout;

use crate::{
    connection::health::{HealthState, Waiting},
    wire::incident::Incident::{self, Blocked, ChannelClosed, Unblocked},
};

/// Records in a worker's health what happens to one of its connections. The end of a connection is recorded once.
pub(crate) struct Watch {
    events: BoxStream<'static, Event>,
    health: Arc<HealthState>,
    /// Which connection, for people.
    on: String,
    /// There while the broker blocks the connection. A connection that has gone waits for nothing any more.
    blocked: Option<Waiting>,
    lost: Option<Error>,
}

/// How long the client may take to tell why a connection is gone.
const A_MOMENT: Duration = Duration::from_millis(200);

impl Watch {
    pub(super) fn new(connection: &Connection, health: Arc<HealthState>, on: String) -> Self {
        let mut watch = Self {
            events: connection.events_listener().boxed(),
            health,
            on,
            blocked: None,
            lost: None,
        };
        if connection.status().blocked() {
            watch.block("from the start");
        }
        watch
    }

    /// Notices what happens while it is polled. Never ends.
    ///
    /// # Cancel safety
    /// Nothing is missed: what happens meanwhile is noticed by the next call.
    pub(crate) async fn keep(&mut self) {
        while let Some(event) = self.events.next().await {
            self.notice(event);
        }
        pending::<()>().await;
    }

    /// Notices what has happened since it was polled last. Why the connection has ended, if it has
    /// not been closed by us.
    pub(crate) fn catch_up(&mut self) -> Option<&Error> {
        while let Some(Some(event)) = self.events.next().now_or_never() {
            self.notice(event);
        }
        self.lost.as_ref()
    }

    /// The same of a connection that is gone: the client tells why a moment after it is.
    pub(crate) async fn why_gone(&mut self) -> Option<&Error> {
        let told = async {
            while self.lost.is_none()
                && let Some(event) = self.events.next().await
            {
                self.notice(event);
            }
        };
        let _ = timeout(A_MOMENT, told).await;
        self.lost.as_ref()
    }

    fn notice(&mut self, event: Event) {
        match event {
            Event::ConnectionBlocked(reason) => self.block(&reason),
            Event::ConnectionUnblocked => {
                self.health.record_incident(Unblocked, &self.on, None);
                self.blocked = None;
            }
            Event::Error(error) => self.fail(error),
            _ => {}
        }
    }

    fn block(&mut self, reason: &str) {
        self.health
            .record_incident(Blocked, &self.on, Some(&reason));
        self.blocked = Some(self.health.blocked(reason));
    }

    fn fail(&mut self, error: Error) {
        match cause(&error) {
            // The channel's user has the error, too, and knows more.
            ChannelClosed => {}
            incident if self.lost.is_none() => {
                self.health
                    .record_incident(incident, &self.on, Some(&error));
                self.lost = Some(error);
            }
            _ => {}
        }
    }
}

/// What an error says about the connection or the channel that had it.
fn cause(error: &Error) -> Incident {
    match error.kind() {
        ErrorKind::MissingHeartbeatError => Incident::HeartbeatMissed,
        ErrorKind::ProtocolError(_) if error.is_amqp_soft_error() => ChannelClosed,
        ErrorKind::ProtocolError(_) | ErrorKind::InvalidConnectionState(_) => {
            Incident::ConnectionClosed
        }
        _ => Incident::ConnectionBroken,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use lapin::protocol::{AMQPError, AMQPHardError, AMQPSoftError};

    use super::*;

    #[test]
    fn an_error_tells_what_it_ended_and_why() {
        let soft = AMQPError::new(AMQPSoftError::PRECONDITIONFAILED.into(), "".into());
        let hard = AMQPError::new(AMQPHardError::CONNECTIONFORCED.into(), "".into());
        for (kind, expected) in [
            (ErrorKind::MissingHeartbeatError, Incident::HeartbeatMissed),
            (ErrorKind::ProtocolError(soft), ChannelClosed),
            (ErrorKind::ProtocolError(hard), Incident::ConnectionClosed),
            (
                ErrorKind::IOError(Arc::new(io::ErrorKind::BrokenPipe.into())),
                Incident::ConnectionBroken,
            ),
        ] {
            assert_eq!(cause(&kind.into()), expected);
        }
    }
}
