//! Errors as a person reads them.

use std::{
    error::Error,
    fmt::{self, Display},
    iter,
};

/// An error and what caused it, in one line.
///
/// Every error of idem's own has this for its [`Debug`], too: that is what is shown of an error that `main` returns.
///
/// ```
/// use idem_core::{ErrorChain, StoreError};
///
/// let error = StoreError::unavailable("connection refused");
/// assert_eq!(ErrorChain::of(&error).to_string(), "the store is unavailable: connection refused");
/// assert_eq!(format!("{error:?}"), "the store is unavailable: connection refused");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ErrorChain<'a>(&'a (dyn Error + 'a));

impl<'a> ErrorChain<'a> {
    /// Borrows an error, to show it.
    pub fn of(error: &'a (dyn Error + 'a)) -> Self {
        Self(error)
    }
}

impl Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = iter::successors(self.0.source(), |&cause| cause.source());
        let told = causes.fold(self.0.to_string(), |told, cause| {
            let cause = cause.to_string();
            // Some errors repeat what caused them.
            if told.contains(&cause) {
                told
            } else {
                format!("{told}: {cause}")
            }
        });
        f.write_str(&told)
    }
}

/// Gives errors a [`Debug`] that reads as their [`ErrorChain`]; not part of the public API.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_chain {
    ($($(#[$attribute:meta])* $error:ty),+ $(,)?) => {$(
        $(#[$attribute])*
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&$crate::ErrorChain::of(self), f)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        handler::{DecodeError, PolicyError, Rejection},
        message::KeyError,
        session_storage::SessionStorageError,
        store::{ConnectError, RecordedByError, StoreError},
    };

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let [text, below @ ..] = texts else {
            panic!("there is one at least")
        };
        let source = (!below.is_empty()).then(|| Box::new(layers(below)));
        Layer { text, source }
    }

    #[test]
    fn each_cause_is_told_once() {
        let told = |texts| ErrorChain::of(&layers(texts)).to_string();
        assert_eq!(told(&["a"]), "a");
        assert_eq!(told(&["a", "b", "c"]), "a: b: c");
        assert_eq!(told(&["it says: no", "no", "why"]), "it says: no: why");
    }

    /// As `main` does.
    fn shown(error: impl Into<Box<dyn Error>>) -> String {
        format!("{:?}", error.into())
    }

    #[test]
    fn an_error_that_main_returns_is_shown_in_words() {
        let refused = || layers(&["refused", "nobody listens"]);
        assert_eq!(
            shown(ConnectError::Unavailable(Box::new(refused()))),
            "the store could not be opened: refused: nobody listens"
        );
        assert_eq!(
            shown(DecodeError::new(refused())),
            "the body is not a valid message: refused: nobody listens"
        );
        assert_eq!(shown(Rejection::new("no header")), "no header");
        assert_eq!(shown(KeyError::NoParts), KeyError::NoParts.to_string());
        assert_eq!(
            shown(PolicyError::NoAttempts),
            PolicyError::NoAttempts.to_string()
        );
        assert_eq!(
            shown(SessionStorageError::failed("`a.json`", refused())),
            "the session cannot be kept in `a.json`: refused: nobody listens"
        );
        let constraint = "charges_pkey".to_owned();
        let source = StoreError::unavailable(refused());
        assert_eq!(
            shown(RecordedByError::Store { constraint, source }),
            "the store could not be asked about `charges_pkey`: the store is unavailable: refused: nobody listens"
        );
    }
}
