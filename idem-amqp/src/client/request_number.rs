//! Names a request of a session.

use std::fmt;

use idem_core::session_storage::StoredRequest;

/// Names a request of a session: it can be asked again there, and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestNumber {
    /// The id of its session.
    pub session: String,
    /// Which of the session's requests it is, from 0 on.
    pub number: u64,
}

/// A request of a session that may have been handled, and whose reply the client has not seen.
///
/// ```no_run
/// # use idem_amqp::{Request, client::CallError, session::Session};
/// # struct CreateLease;
/// # impl Request for CreateLease { type Reply = u64; type Error = String; }
/// # async fn example(session: Session) -> Result<(), CallError<String>> {
/// for request in session.unanswered() {
///     let lease = session.resume::<CreateLease>(&request.number).await?;
///     println!("{}: lease {}", request.body, lease.reply);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// Its name, for [`Session::resume`](super::Session::resume).
    pub number: RequestNumber,
    /// The request, as JSON.
    pub body: String,
    /// Its headers, but for those that are idem's.
    pub headers: Vec<(String, String)>,
}

impl RequestNumber {
    pub(super) fn new(session: &str, number: u64) -> Self {
        Self {
            session: session.to_owned(),
            number,
        }
    }
}

impl Unanswered {
    pub(super) fn of(session: &str, request: StoredRequest) -> Self {
        Self {
            number: RequestNumber::new(session, request.number),
            body: request.body,
            headers: request.headers,
        }
    }
}

/// `SESSION/NUMBER`, the key of [`CallError::Unknown`](crate::client::CallError::Unknown).
impl fmt::Display for RequestNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.session, self.number)
    }
}

/// Leaves out the request, which may hold private data.
impl fmt::Debug for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unanswered")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
