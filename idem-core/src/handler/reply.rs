//! Request and reply: what a request is answered with, and how an answer is remembered.

use serde::{Serialize, de::DeserializeOwned};

mod answer;
pub(crate) mod asked;
mod refused;

pub use answer::Answer;
pub use refused::Refused;

/// A message whose sender waits for an answer.
///
/// It ties the message to the types of its answer, for the client that calls and for the handler
/// that answers: a handler of a request returns `Result<Reply, Refused<Error>>`, and does not
/// compile otherwise. A contract crate that both share needs serde and idem-core only.
///
/// ```
/// use idem_core::Request;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct CreateLease { name: String }
///
/// #[derive(Serialize, Deserialize)]
/// struct Lease { id: u64 }
///
/// #[derive(Serialize, Deserialize)]
/// enum LeaseError { Taken }
///
/// impl Request for CreateLease {
///     type Reply = Lease;
///     type Error = LeaseError;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a request: it does not say what it is answered with",
    label = "not a `Request`",
    note = "write `impl Request for {Self} {{ type Reply = …; type Error = …; }}` beside it"
)]
pub trait Request: Send + 'static {
    /// What it is answered with. Remembered as JSON.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
    /// Why it is refused for good. Remembered as JSON.
    type Error: Serialize + DeserializeOwned + Send + 'static;
}

#[cfg(test)]
mod tests;
