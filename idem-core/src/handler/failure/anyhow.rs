//! `anyhow::Error` as a handler's error: worth another attempt, unless a [`Failed`] in its chain says otherwise.

use std::{error::Error, fmt};

use super::{Failed, Failure, Verdict};
use crate::error_chain::ErrorChain;

/// Worth another attempt, unless it was made of a [`Failed`], by `?` or `bail!`; context that is put round it changes
/// nothing of that.
///
/// ```
/// use anyhow::{Context as _, bail};
/// use idem_core::{Failed, Failure, Verdict};
///
/// fn charge(cents: &str) -> anyhow::Result<u32> {
///     let cents = cents.parse().context("the amount is no number")?; // worth another attempt
///     if cents == 0 {
///         bail!(Failed::rejected("amount must be positive")); // for good
///     }
///     Ok(cents)
/// }
///
/// assert_eq!(charge("x").unwrap_err().verdict(), Verdict::Retry);
/// assert_eq!(charge("0").context("cannot charge").unwrap_err().verdict(), Verdict::Reject);
/// ```
impl Failure for anyhow::Error {
    fn verdict(&self) -> Verdict {
        let failed = self.chain().find_map(|cause| cause.downcast_ref());
        failed.map_or(Verdict::Retry, |Carried(failed)| failed.verdict())
    }

    fn describe(&self) -> String {
        ErrorChain::of(self.as_ref()).to_string()
    }
}

/// Its verdict stays with it.
impl From<Failed> for anyhow::Error {
    fn from(failed: Failed) -> Self {
        Self::new(Carried(failed))
    }
}

/// A [`Failed`] in the chain of another error. [`Failed`] itself is no `Error`.
struct Carried(Failed);

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Carried {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.error().source()
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use anyhow::{Context as _, anyhow};

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn refused() -> io::Error {
        io::Error::from(io::ErrorKind::ConnectionRefused)
    }

    #[test]
    fn any_error_is_worth_another_attempt() {
        assert_eq!(anyhow!("closed").verdict(), Verdict::Retry);
        let failed: anyhow::Error = refused().into();
        assert_eq!(failed.verdict(), Verdict::Retry);
    }

    #[test]
    fn a_failed_in_the_chain_keeps_its_verdict() {
        for (failed, verdict) in [
            (Failed::retry("closed"), Verdict::Retry),
            (
                Failed::retry_after(MINUTE, "closed"),
                Verdict::RetryAfter(MINUTE),
            ),
            (Failed::rejected("no such customer"), Verdict::Reject),
        ] {
            let bare = anyhow::Error::from(failed);
            assert_eq!(bare.verdict(), verdict);
            let wrapped = bare.context("charging").context("handling");
            assert_eq!(wrapped.verdict(), verdict);
        }
        let charge = || -> anyhow::Result<()> {
            Err(Failed::rejected("no such customer"))?;
            Ok(())
        };
        assert_eq!(charge().unwrap_err().verdict(), Verdict::Reject);
    }

    #[test]
    fn it_is_described_with_its_causes() {
        let failed = Err::<(), _>(refused()).context("charging").unwrap_err();
        assert_eq!(failed.describe(), "charging: connection refused");
        let rejected = Failed::rejected(crate::store::StoreError::unavailable(refused()));
        let rejected = anyhow::Error::from(rejected).context("charging");
        assert_eq!(
            rejected.describe(),
            "charging: the store is unavailable: connection refused"
        );
    }

    #[test]
    fn it_keeps_its_causes_as_a_failed() {
        let failed = Err::<(), _>(refused()).context("charging").unwrap_err();
        let failed = Failed::rejected(failed);
        assert_eq!(failed.verdict(), Verdict::Reject);
        assert_eq!(failed.describe(), "charging: connection refused");
    }
}
