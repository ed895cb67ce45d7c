//! Repeats a write until the store has told whether it took effect.

use std::time::Duration;

use crate::{Backoff, Key, StoreError};

/// Short at first for a hiccup; never long, because a finished work waits to be recorded.
pub(super) const PATIENCE: Backoff =
    Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

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
                tracing::warn!(%key, call, tries, error = error_chain(&error), "store unavailable, asking again");
                tokio::time::sleep(PATIENCE.wait(tries)).await;
            }
        }
    }
}

/// The error and what caused it, in one line.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
