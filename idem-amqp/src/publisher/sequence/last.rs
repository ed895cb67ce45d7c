//! Why a call goes on.

use std::sync::{Mutex, PoisonError};

use crate::error::PublishError;

/// The last error of a call that goes on.
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
