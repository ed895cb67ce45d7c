//! Why a message of the outbox was not published, and what that says about it and about the broker.

use std::error::Error;

use idem_core::ErrorChain;
use lapin::types::ReplyCode;

use crate::error::{PublishError, library_error};

/// Why a message is not published.
pub(super) enum Failure {
    /// It can never be published.
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

impl Failure {
    /// `alone`: no other message was on the channel.
    pub(super) fn of(error: &PublishError, alone: bool) -> Self {
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
    let Some(error) = library_error(error) else {
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
    let Some(error) = library_error(error) else {
        return false;
    };
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => FOR_GOOD.contains(&error.get_id()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};

    use super::*;
    use crate::error::said;

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
            let error = PublishError::Unconfirmed(said(lapin::Error::from(kind)));
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
}
