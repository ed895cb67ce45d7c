//! What the broker has against a message: for which it has closed the channel, or returned it.

use lapin::{
    Error, ErrorKind,
    protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError},
};

use crate::error::{PublishError, library_error};

/// What the broker does not take, whenever it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Objection {
    /// The message: it is too large, or one of its headers has a meaning for the broker and a wrong value.
    Message,
    /// Where it goes: there is no such exchange, or it may not be used.
    Destination,
    /// Its routing key: no queue is bound for it.
    Route,
}

impl Objection {
    /// What an error tells, if nothing but this one message was published on the channel.
    pub(super) fn of(error: &PublishError) -> Option<Self> {
        match error {
            PublishError::Unconfirmed(source) => Self::in_close(library_error(&**source)?),
            PublishError::TooLarge { .. } => Some(Self::Message),
            PublishError::Unroutable { .. } => Some(Self::Route),
            _ => None,
        }
    }

    fn in_close(error: &Error) -> Option<Self> {
        let ErrorKind::ProtocolError(error) = error.kind() else {
            return None;
        };
        match error.kind() {
            AMQPErrorKind::Soft(
                AMQPSoftError::PRECONDITIONFAILED | AMQPSoftError::CONTENTTOOLARGE,
            )
            | AMQPErrorKind::Hard(
                AMQPHardError::FRAMEERROR
                | AMQPHardError::SYNTAXERROR
                | AMQPHardError::NOTIMPLEMENTED,
            ) => Some(Self::Message),
            AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND | AMQPSoftError::ACCESSREFUSED) => {
                Some(Self::Destination)
            }
            _ => None,
        }
    }

    /// Whether it is meant for this message, also if others were published with it.
    pub(super) fn is_certain(self) -> bool {
        self == Self::Route
    }

    /// What to do.
    pub(super) fn cure(self) -> &'static str {
        match self {
            Self::Message => {
                "give the number up with `SequencePublisher::withdraw`, and publish a message that the \
                 broker takes"
            }
            Self::Route => {
                "declare its queue, or bind one, and publish again; or give the number up with \
                 `SequencePublisher::withdraw`"
            }
            Self::Destination => {
                "declare the exchange, or grant its use, and publish again; or begin another stream with \
                 `Publisher::sequence`, elsewhere"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use super::*;
    use crate::error::said;

    fn closed(kind: impl Into<AMQPErrorKind>) -> PublishError {
        let error = AMQPError::new(kind.into(), "no".into());
        let error = Error::from(ErrorKind::ProtocolError(error));
        PublishError::Unconfirmed(said(error))
    }

    #[test]
    fn what_closes_a_channel_for_good_is_told_from_what_passes() {
        for (error, expected) in [
            (
                closed(AMQPSoftError::PRECONDITIONFAILED),
                Some(Objection::Message),
            ),
            (
                closed(AMQPSoftError::NOTFOUND),
                Some(Objection::Destination),
            ),
            (
                closed(AMQPSoftError::ACCESSREFUSED),
                Some(Objection::Destination),
            ),
            (closed(AMQPHardError::FRAMEERROR), Some(Objection::Message)),
            (closed(AMQPHardError::CONNECTIONFORCED), None),
            (closed(AMQPHardError::INTERNALERROR), None),
            (PublishError::Unconfirmed("no answer".into()), None),
            (
                PublishError::TooLarge { bytes: 9, most: 8 },
                Some(Objection::Message),
            ),
            (
                PublishError::Unroutable {
                    exchange: String::new(),
                    routing_key: "readings".into(),
                },
                Some(Objection::Route),
            ),
            (
                PublishError::Refused {
                    routing_key: "readings".into(),
                },
                None,
            ),
        ] {
            assert_eq!(Objection::of(&error), expected, "{error:?}");
        }
    }
}
