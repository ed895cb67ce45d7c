//! Why a session could not be opened, resumed or closed.

use idem_core::session_storage::SessionStorageError;

use crate::client::Unanswered;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a session could not be opened, resumed or closed, or a key not be reserved.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The server opens no sessions, or does not exist.
    #[error(
        "there is no queue `{queue}`: consume the requests with `consume_in_sessions`, start that \
         worker, or correct the queue's name"
    )]
    NoSessions {
        /// The queue's name.
        queue: String,
    },
    /// Nothing was sent before the deadline.
    #[error("the server could not be asked before the deadline")]
    Unsent(#[source] Source),
    /// No answer came before the deadline. The server may have done what it was asked to: opened a
    /// session, say, that ends by itself. Asking again does no harm.
    #[error("the server did not answer before the deadline: ask again")]
    Unanswered(#[source] Source),
    /// The server refused.
    #[error("the server refused ({code}): {message}")]
    Refused {
        /// Why, for programs.
        code: String,
        /// Why, for people.
        message: String,
    },
    /// The server's answer is none.
    #[error("the server's answer does not decode: is another program consuming `{queue}`?")]
    Reply {
        /// The queue that was asked.
        queue: String,
        /// The answer as it came.
        body: Vec<u8>,
        /// What is wrong with it.
        #[source]
        source: Source,
    },
    /// The session that was to be resumed has ended. The requests that it awaits may have been
    /// handled; nobody can tell any more, and they are not sent again.
    #[error(
        "the session `{id}` has ended, {} of its requests may have been handled or not: look at what \
         they would have changed, then open a new session",
        unanswered.len()
    )]
    Expired {
        /// The session's id.
        id: String,
        /// Its requests without an answer.
        unanswered: Vec<Unanswered>,
    },
    /// What is kept is the session of another queue.
    #[error(
        "the session that is kept was opened at `{kept}`, not at `{queue}`: keep it in another place, \
         or correct the queue's name"
    )]
    OtherQueue {
        /// The queue that it was opened at.
        kept: String,
        /// The queue of this client.
        queue: String,
    },
    /// The session cannot be kept there: another one is, say, of this process or another. Or what is
    /// kept cannot be read.
    #[error("the session cannot be kept")]
    Storage(#[from] SessionStorageError),
    /// It cannot be asked as it is: the queue's name is too long, say.
    #[error("the server cannot be asked")]
    Request(#[source] Source),
}

idem_core::debug_as_chain!(SessionError);
