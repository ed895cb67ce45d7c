//! The error of the latest try, for when the time is up.

use std::sync::{Mutex, PoisonError};

use crate::error::PublishError;

/// The error of the latest try of a call that still tries: what it returns if it runs out of time.
#[derive(Debug, Default)]
pub(super) struct Last(Mutex<Option<PublishError>>);

impl Last {
    pub(super) fn put(&self, error: PublishError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(super) fn take(&self) -> Option<PublishError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
