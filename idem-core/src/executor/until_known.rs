//! Repeats a call until the store has answered it: a completion, a release, or a claim that tells what became of a
//! commit.
//!
//! The modes call it when an attempt ends, or when a key is given back of which nothing ran. What must stay true: an
//! error never ends an attempt, because it means *unknown*, and what ran must neither be forgotten nor run again. That
//! is so for a record that cannot be read, too. The waits between the calls grow up to a limit, so a store that is away
//! is not asked in a hot loop.

use std::time::Duration;

use crate::{error_chain::ErrorChain, handler::Backoff, message::Key, store::StoreError};

/// The waits while the store is away. They are short at first, because most outages are; they are never long, because
/// finished work waits to be recorded, and with it a delivery.
pub(super) const PATIENCE: Backoff =
    Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// The waits while the record cannot be read: a person has to mend or delete it, which takes minutes.
const CORRUPT: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));

/// Makes the call until it is answered, and returns the answer: for ever, if need be. `call` is its name in the log.
///
/// The call has to be one that may be repeated: a claim by the same owner, or the same write under the same lease.
/// Dropped half way, it makes no further call; the last one may have had its effect.
pub(super) async fn until_known<T, F, Fut>(call: &'static str, key: &Key, ask: F) -> T
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T, StoreError>>,
{
    let mut tries = 0;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => {
                tries += 1;
                tokio::time::sleep(pause(call, key, tries, &error)).await;
            }
        }
    }
}

/// How long to wait before the next try, of which so many were made (from 1); says in the log what is waited for.
fn pause(call: &'static str, key: &Key, tries: u32, error: &StoreError) -> Duration {
    let is_corrupt = matches!(error, StoreError::Corrupt { .. });
    let error = ErrorChain::of(error);
    if is_corrupt {
        tracing::error!(%key, call, tries, %error, "the store's record of this key cannot be read or written: mend or delete it; asking again");
        CORRUPT.wait(tries)
    } else {
        // An outage may be long, and many keys may wait for its end.
        if tries.is_power_of_two() {
            tracing::warn!(%key, call, tries, %error, "the store cannot be asked: asking again");
        } else {
            tracing::debug!(%key, call, tries, %error, "the store cannot be asked: asking again");
        }
        PATIENCE.wait(tries)
    }
}
