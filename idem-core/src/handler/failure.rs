//! What a handler's error says about another attempt.

use std::{error::Error, fmt, time::Duration};

use crate::{error_chain::ErrorChain, handler::Refusal};

#[cfg(feature = "anyhow")]
mod anyhow;

/// What is to become of a message whose handler failed.
///
/// ```
/// use std::time::Duration;
/// use idem_core::Verdict;
///
/// fn verdict(status: u16) -> Verdict {
///     match status {
///         429 => Verdict::RetryAfter(Duration::from_mins(1)),
///         400..=499 => Verdict::Reject,
///         _ => Verdict::Retry,
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Worth another attempt, after the policy's backoff.
    Retry,
    /// Worth another attempt, not before this much time; at most the policy's retention.
    RetryAfter(Duration),
    /// Failed for good: dead-lettered, not attempted again.
    Reject,
    /// Not failed: the handler found its effect in what it writes to. The key is completed, the message ends as a
    /// [`Duplicate`](crate::Execution::Duplicate), and copies do not run. What an atomic handler has written is rolled
    /// back.
    DoneBefore,
}

/// A handler's error. Worth another attempt, unless it says otherwise.
///
/// ```
/// use idem_core::{Failure, Verdict};
///
/// #[derive(Debug)]
/// enum NotifyError { Timeout, NoSuchCustomer }
///
/// impl std::fmt::Display for NotifyError {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         write!(f, "{self:?}")
///     }
/// }
///
/// impl Failure for NotifyError {
///     fn verdict(&self) -> Verdict {
///         match self {
///             Self::Timeout => Verdict::Retry,
///             Self::NoSuchCustomer => Verdict::Reject,
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether a failed message is worth another attempt",
    label = "not a `Failure`",
    note = "return `Result<_, Failed>`, which any error becomes by `?`, or write `impl Failure for {Self} {{}}` for an error type of your own that is always worth another attempt",
    note = "`anyhow::Error` is one with the feature `anyhow`"
)]
pub trait Failure: fmt::Display + fmt::Debug + Send + 'static {
    /// What is to become of the message.
    fn verdict(&self) -> Verdict {
        Verdict::Retry
    }

    /// The error in one line, for the store, the log and the dead letter.
    fn describe(&self) -> String {
        self.to_string()
    }

    /// What a requester is answered with, and a copy of its request again, if the error is
    /// [for good](Verdict::Reject).
    fn refusal(&self) -> Refusal {
        Refusal::rejected(self.describe())
    }
}

/// The ready-made handler error.
///
/// `?` turns any error into a failure worth another attempt; [`Failed::rejected`] is for good.
///
/// ```
/// use std::time::Duration;
/// use idem_core::{Failed, Failure, Verdict};
///
/// fn amount(text: &str, bank_is_open: bool) -> Result<u32, Failed> {
///     if !bank_is_open {
///         return Err(Failed::retry_after(Duration::from_mins(10), "the bank is closed"));
///     }
///     text.parse().map_err(Failed::rejected) // or `Ok(text.parse()?)`, for another attempt
/// }
///
/// assert_eq!(amount("12", false).unwrap_err().verdict(), Verdict::RetryAfter(Duration::from_mins(10)));
/// assert_eq!(amount("twelve", true).unwrap_err().verdict(), Verdict::Reject);
/// ```
pub struct Failed {
    verdict: Verdict,
    error: Box<dyn Error + Send + Sync>,
}

impl Failed {
    /// Worth another attempt.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Verdict::Retry, error)
    }

    /// Worth another attempt, not before `delay`.
    pub fn retry_after(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Verdict::RetryAfter(delay), error)
    }

    /// Failed for good: no attempt can succeed, the message is dead-lettered.
    pub fn rejected(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Verdict::Reject, error)
    }

    /// The work was done before, as the handler's own rows tell: the row holds the message's id already, say. The
    /// message is a duplicate, and its key is completed. Nobody knows the output: a requester is told
    /// [`Refusal::DONE_BEFORE`].
    ///
    /// ```
    /// use idem_core::Failed;
    ///
    /// /// After `UPDATE accounts SET balance = balance + $2, last_credit = $3 WHERE id = $1 AND last_credit < $3`.
    /// fn credited(rows: u64) -> Result<(), Failed> {
    ///     if rows == 0 { Err(Failed::done_before()) } else { Ok(()) }
    /// }
    /// # assert!(credited(0).is_err());
    /// ```
    pub fn done_before() -> Self {
        Self::new(Verdict::DoneBefore, "it was done before, says its handler")
    }

    /// The error inside.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }

    fn new(verdict: Verdict, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            verdict,
            error: error.into(),
        }
    }
}

impl Failure for Failed {
    fn verdict(&self) -> Verdict {
        self.verdict
    }

    fn describe(&self) -> String {
        ErrorChain::of(&*self.error).to_string()
    }
}

/// `Failed` is not an `Error` itself, so that `?` can turn every error into it.
impl<E: Error + Send + Sync + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

/// The error and its causes, as those of every error of idem's: `Failed` may be what `main` returns.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_question_mark_makes_a_failure_worth_another_attempt() {
        let parse = || -> Result<u8, Failed> { Ok("x".parse::<u8>()?) };
        assert_eq!(parse().unwrap_err().verdict(), Verdict::Retry);
    }

    #[test]
    fn a_rejection_is_for_good() {
        let failed = Failed::rejected("amount must be positive");
        assert_eq!(failed.verdict(), Verdict::Reject);
        assert_eq!(failed.describe(), "amount must be positive");
    }

    #[test]
    fn it_is_shown_as_what_failed_and_why() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let failed = Failed::retry(crate::store::StoreError::unavailable(refused));
        assert_eq!(
            format!("{failed:?}"),
            "the store is unavailable: connection refused"
        );
        let rejected = Failed::rejected("amount must be positive");
        assert_eq!(format!("{rejected:?}"), "amount must be positive");
    }
}
