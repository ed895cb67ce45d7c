//! A store whose records are forgotten by themselves.

use idem_core::StoreError;

use crate::forgets::Forgets;

pub(crate) struct ByItself;

impl<S> Forgets<S> for ByItself {
    async fn purge(&self, _: &S, _: u32) -> Option<Result<u32, StoreError>> {
        None
    }
}
