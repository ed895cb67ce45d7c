//! The error of a handler of a request.

use std::{error::Error, fmt, time::Duration};

use serde::Serialize;

use crate::handler::{Failed, Failure, Refusal, Verdict};

/// The error of a handler of a [`Request`](crate::Request) whose error type is `E`.
///
/// | made by | the requester | |
/// |---|---|---|
/// | [`Refused::with`] | is answered with the typed error | for good |
/// | [`Refused::rejected`] | is answered with a message | for good |
/// | `?`, [`Refused::retry`], [`Refused::retry_after`] | goes on waiting | another attempt |
///
/// What is for good is remembered like an output, and repeated to copies of the request.
///
/// ```
/// use idem_core::Refused;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// enum LeaseError { Taken }
///
/// async fn grant(name: &str, path: &str) -> Result<u64, Refused<LeaseError>> {
///     if name.is_empty() {
///         return Err(Refused::rejected("a lease needs a name"));
///     }
///     let taken = std::fs::read_to_string(path)?; // another attempt may find the file
///     if taken.contains(name) {
///         return Err(Refused::with(LeaseError::Taken));
///     }
///     Ok(17)
/// }
/// ```
pub struct Refused<E>(Why<E>);

enum Why<E> {
    Typed(E),
    Failed(Failed),
}

impl<E> Refused<E> {
    /// Refused for good, with the request's typed error.
    pub fn with(error: E) -> Self {
        Self(Why::Typed(error))
    }

    /// Refused for good, for a reason that the typed error has no word for.
    pub fn rejected(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failed::rejected(error).into()
    }

    /// Worth another attempt.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failed::retry(error).into()
    }

    /// Worth another attempt, not before `delay`.
    pub fn retry_after(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failed::retry_after(delay, error).into()
    }

    /// The typed error, if it was made [with](Self::with) one.
    pub fn error(&self) -> Option<&E> {
        match &self.0 {
            Why::Typed(error) => Some(error),
            Why::Failed(_) => None,
        }
    }
}

impl<E> Refused<E> {
    /// What it is if it was not made [with](Self::with) a typed error.
    pub(crate) fn failed(&self) -> Option<&Failed> {
        match &self.0 {
            Why::Typed(_) => None,
            Why::Failed(failed) => Some(failed),
        }
    }
}

impl<E: Serialize + Send + 'static> Failure for Refused<E> {
    fn verdict(&self) -> Verdict {
        match &self.0 {
            Why::Typed(_) => Verdict::Reject,
            Why::Failed(failed) => failed.verdict(),
        }
    }

    fn describe(&self) -> String {
        match &self.0 {
            Why::Typed(_) => self.to_string(),
            Why::Failed(failed) => failed.describe(),
        }
    }

    fn refusal(&self) -> Refusal {
        let refusal = Refusal::rejected(self.describe());
        let Some(error) = self.error() else {
            return refusal;
        };
        match serde_json::to_value(error) {
            Ok(error) => refusal.typed(error),
            // The description says so.
            Err(_) => refusal,
        }
    }
}

/// `Refused` is not an `Error` itself, so that `?` can turn every error into it.
impl<E, X: Error + Send + Sync + 'static> From<X> for Refused<E> {
    fn from(error: X) -> Self {
        Failed::from(error).into()
    }
}

impl<E> From<Failed> for Refused<E> {
    fn from(failed: Failed) -> Self {
        Self(Why::Failed(failed))
    }
}

/// A typed error is shown as its JSON: it need not have words of its own.
impl<E: Serialize> fmt::Display for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::Failed(failed) => fmt::Display::fmt(failed, f),
            Why::Typed(error) => match serde_json::to_string(error) {
                Ok(json) => f.write_str(&json),
                Err(error) => write!(f, "its error is not expressible as JSON: {error}"),
            },
        }
    }
}

impl<E: Serialize> fmt::Debug for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::Failed(failed) => fmt::Debug::fmt(failed, f),
            Why::Typed(_) => f
                .debug_tuple("Refused")
                .field(&format_args!("{self}"))
                .finish(),
        }
    }
}
