//! What is measured: two ways to handle a message once.

use crate::Result;

/// One way to handle each message once.
pub(crate) trait Contender: Send + Sync + 'static {
    /// Claims a new key and completes it. That it was not new is an error.
    fn first(&self, name: &str) -> impl Future<Output = Result<()>> + Send;

    /// Claims a completed key. That it was not completed is an error.
    fn again(&self, name: &str) -> impl Future<Output = Result<()>> + Send;
}
