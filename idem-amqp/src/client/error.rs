//! Why a client could not connect, and why a call brought no reply.

use std::fmt::{self, Debug, Display};

use idem_core::ErrorChain;

use super::RequestNumber;
use crate::error::BrokerError;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a client could not connect.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The client was not told which queue takes its requests.
    #[error("the client has no queue: name the one that takes requests with `.queue(\"…\")`")]
    NoQueue,
    /// The broker cannot be reached, or does not let us in.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The client cannot have a queue for replies.
    #[error(
        "the broker at {broker} gives the client no queue for replies: grant its user the permissions \
         configure and read on `amq\\.gen.*`, or use `.reply_to(ReplyTo::Direct)`"
    )]
    ReplyQueue {
        /// Host, port and vhost.
        broker: String,
        /// What the broker said.
        #[source]
        source: Source,
    },
}

idem_core::debug_as_chain!(ClientError);

/// Why a call brought no reply. `E` is the request's own error type; if it is `Debug`, this is an
/// [`Error`](std::error::Error).
///
/// | variant | was the request handled? | what to do |
/// |---|---|---|
/// | `Refused` | yes, and refused for good, by a handler that says why in your types | read the error |
/// | `Failed` | its `code` says; see there | read the code; the message is for people |
/// | `Unroutable` | no, nor will it be | start the worker that declares the queue, or correct the name |
/// | `Unsent` | no, nor will it be (by this call) | call again when the broker is back |
/// | `Unknown` | perhaps, or it will be | its [`again`](Again) says how to find out without doing it twice |
/// | `OtherSession` | perhaps | ask again in the session that it is of |
/// | `SessionExpired` | no, nor will it be | open a new session, call again in it |
/// | `Unsaved` | no, nor will it be (by this call) | see to the place where the session is kept |
/// | `Reply` | yes | give both sides the same contract; the bytes are kept |
/// | `Request` | no, nor will it be | change the request |
///
/// ```
/// use idem_amqp::client::CallError;
///
/// /// Whether the request may have had its effect.
/// fn may_have_happened<E>(error: &CallError<E>) -> bool {
///     match error {
///         CallError::Unknown { .. } | CallError::Reply { .. } => true,
///         CallError::Failed { code, .. } => code == "in-doubt" || code.starts_with("outcome-"),
///         _ => false,
///     }
/// }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The handler refused the request for good, and said why.
    #[error("the request was refused: {0:?}")]
    Refused(E),
    /// The request was refused, or could not be handled, without an error of the request's own type.
    ///
    /// | code ([`Refusal`](idem_core::handler::Refusal) has constants) | meaning |
    /// |---|---|
    /// | `rejected` | the handler refused it for good |
    /// | `exhausted` | it failed as often as it may; it waits in the dead-letter queue |
    /// | `in-doubt` | an attempt vanished, it may have had its effect; it waits in the dead-letter queue |
    /// | `undecodable`, `invalid`, `keyless` | the handler cannot read it, its `validate` rejects it, or it has no key; it waits in the dead-letter queue |
    /// | `unreadable` | its properties cannot be read; it waits in the dead-letter queue |
    /// | `key-reused` | its key was used for other content; it was not handled |
    /// | `outcome-too-large`, `outcome-not-serializable` | the reply cannot be kept; a leased handler's effect has happened, an atomic one's was rolled back |
    /// | `outcome-outdated` | it was handled, by a version of the handler whose reply is not understood any more |
    /// | `beyond-window` | its number is further ahead than its session allows; it was not handled |
    #[error("the request failed ({code}): {message}")]
    Failed {
        /// Why, for programs.
        code: String,
        /// Why, for people.
        message: String,
    },
    /// No queue took the request, at any try: it was not handled.
    #[error("there is no queue `{queue}`: start the worker that declares it, or correct the name")]
    Unroutable {
        /// The queue's name.
        queue: String,
    },
    /// The request could not be sent before the deadline: it was not handled by this call.
    #[error("the request was not sent before the deadline")]
    Unsent(#[source] Source),
    /// No reply came, and a try may have reached the queue: the request may have been handled, or may
    /// still be. A request that is asked again as [`again`](Again) says is answered from memory if it
    /// was handled, and is handled then if it was not.
    #[error("no reply came, the request may have been handled: {}", again.advice(key))]
    Unknown {
        /// The request's key. In a session: `SESSION/NUMBER`.
        key: String,
        /// How to find out.
        again: Again,
        /// What became of the last try.
        #[source]
        last: Source,
    },
    /// The request that was to be asked again is one of another session, where its number is another
    /// request's: it was not sent.
    #[error(
        "request {request} is none of the session `{session}`, and was not sent there: ask again in its \
         own, or look at what it would have changed if that has ended"
    )]
    OtherSession {
        /// The request.
        request: RequestNumber,
        /// The session that was to ask for it.
        session: String,
    },
    /// The session has ended, and the request was not handled.
    #[error("the session has ended, the request was not handled: open a new session")]
    SessionExpired,
    /// The request could not be saved, so it was not sent: a crash would have left it unknown.
    #[error("the request was not sent, because it could not be saved before")]
    Unsaved(#[source] Source),
    /// The request was answered, and the reply is not what the request's type says.
    #[error("the reply does not decode as `{expected}`: give client and worker the same contract")]
    Reply {
        /// The type's name.
        expected: &'static str,
        /// The reply as it came.
        body: Vec<u8>,
        /// What is wrong with it.
        #[source]
        source: Source,
    },
    /// The request cannot be sent as it is: JSON cannot express it, say, or its key is too long.
    #[error("the request cannot be sent")]
    Request(#[source] Source),
}

impl<E: Debug + 'static> Debug for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&ErrorChain::of(self), f)
    }
}

/// How to find out what became of a request, without having it handled twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Again {
    /// Call again with the same key and content: [`Call::key`](super::Call::key).
    Key,
    /// Ask again for this request, in its session:
    /// [`Session::resume`](super::Session::resume). Any other one refuses.
    Number(RequestNumber),
    /// Nobody can tell any more: its session has ended, or its number was given up. No copy of it that
    /// comes later is handled. What it would have changed shows whether it was.
    Never,
}

impl Again {
    fn advice(&self, key: &str) -> String {
        match self {
            Self::Key => {
                format!("call again with `.key(\"{key}\")`, and it is not handled twice")
            }
            Self::Number(RequestNumber { session, number }) => format!(
                "ask again with `Session::resume` for number {number} of the session `{session}`, and \
                 it is not handled twice"
            ),
            Self::Never => {
                "its session cannot tell any more, look at what it would have changed".to_owned()
            }
        }
    }
}
