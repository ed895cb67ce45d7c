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
    fn a_message_is_given_up_only_if_it_is_to_blame_and_can_never_leave() {
        let unconfirmed =
            |kind: lapin::ErrorKind| PublishError::Unconfirmed(said(lapin::Error::from(kind)));
        let protocol = |kind: AMQPErrorKind| {
            let error = AMQPError::new(kind, "as the broker says".into());
            unconfirmed(lapin::ErrorKind::ProtocolError(error))
        };
        let soft = |error: AMQPSoftError| protocol(error.into());
        let hard = |error: AMQPHardError| protocol(error.into());
        let io = || Arc::new(io::Error::from(io::ErrorKind::ConnectionAborted));
        let unroutable = || PublishError::Unroutable {
            exchange: String::new(),
            routing_key: "shipping".into(),
        };
        let too_large = || PublishError::TooLarge {
            bytes: 200_000,
            most: 131_072,
        };
        let refused = || PublishError::Refused {
            routing_key: "shipping".into(),
        };
        let broker = || -> PublishError {
            let reason = "there is no scheme".into();
            crate::error::BrokerError::InvalidUrl { reason }.into()
        };
        // Whether it was alone on its channel, the error, what becomes of it.
        let table = [
            // No message is to blame for a connection that is lost.
            (false, unconfirmed(lapin::ErrorKind::IOError(io())), "lost"),
            (
                true,
                unconfirmed(lapin::ErrorKind::MissingHeartbeatError),
                "lost",
            ),
            (true, hard(AMQPHardError::CONNECTIONFORCED), "lost"),
            (true, hard(AMQPHardError::FRAMEERROR), "this time"),
            // 403, 404 and 406 close the channel: whose fault it is shows when a message is alone on it.
            (false, soft(AMQPSoftError::ACCESSREFUSED), "this time"),
            (true, soft(AMQPSoftError::ACCESSREFUSED), "for good"),
            (false, soft(AMQPSoftError::NOTFOUND), "this time"),
            (true, soft(AMQPSoftError::NOTFOUND), "for good"),
            (false, soft(AMQPSoftError::PRECONDITIONFAILED), "this time"),
            (true, soft(AMQPSoftError::PRECONDITIONFAILED), "for good"),
            (true, soft(AMQPSoftError::RESOURCELOCKED), "this time"),
            // These are said of one message, whoever is beside it.
            (false, unroutable(), "for good"),
            (true, unroutable(), "for good"),
            (false, too_large(), "for good"),
            (true, too_large(), "for good"),
            (false, PublishError::Encode("too long".into()), "for good"),
            (true, refused(), "this time"),
            (true, broker(), "away"),
        ];
        for (alone, error, expected) in table {
            let becomes = match Failure::of(&error, alone) {
                Failure::Away(_) => "away",
                Failure::Lost(_) => "lost",
                Failure::ThisTime(_) => "this time",
                Failure::ForGood(_) => "for good",
                Failure::Late => "late",
            };
            assert_eq!(becomes, expected, "{alone} {error:?}");
        }
    }
}
