//! Repeats a write until the store has told whether it took effect. So, too, while the record cannot
//! be read or written: what ran must neither be forgotten nor run again under the same lease.

use std::time::Duration;

use crate::{error_chain::ErrorChain, handler::Backoff, message::Key, store::StoreError};

/// Short at first for a hiccup; never long, because a finished work waits to be recorded.
pub(super) const PATIENCE: Backoff =
    Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// A person has to mend the record.
const CORRUPT: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));

pub(super) async fn until_known<T, F, Fut>(call: &'static str, key: &Key, write: F) -> T
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T, StoreError>>,
{
    let mut tries = 0;
    loop {
        match write().await {
            Ok(answer) => return answer,
            Err(error) => {
                tries += 1;
                tokio::time::sleep(pause(call, key, tries, &error)).await;
            }
        }
    }
}

/// How long to wait before the next try; says in the log what is waited for.
fn pause(call: &'static str, key: &Key, tries: u32, error: &StoreError) -> Duration {
    let is_corrupt = matches!(error, StoreError::Corrupt { .. });
    let error = ErrorChain::of(error);
    if is_corrupt {
        tracing::error!(%key, call, tries, %error, "the store's record of this key cannot be read or written: mend or delete it; asking again");
        CORRUPT.wait(tries)
    } else {
        tracing::warn!(%key, call, tries, %error, "store unavailable, asking again");
        PATIENCE.wait(tries)
    }
}
