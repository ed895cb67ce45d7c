//! What a store was asked and what it said, for the log.

use std::error::Error;

use tracing::{debug, field::display, warn};

use crate::{
    message::Key,
    store::{Claim, Opened, StoreError, Touched, Write, operator::Intervened},
};

/// Awaits a call and tells its answer, in words: an outcome is nobody's business but its owner's.
pub(super) async fn traced<T: InWords>(
    call: &'static str,
    key: Option<&Key>,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = answer.await;
    let key = key.map(display);
    match &answer {
        Ok(answer) => debug!(call, key, answer = answer.in_words(), "the store answered"),
        Err(error) => {
            let error: &(dyn Error + 'static) = error;
            warn!(call, key, error, "the store could not answer");
        }
    }
    answer
}

pub(super) trait InWords {
    fn in_words(&self) -> String;
}

impl InWords for Claim {
    fn in_words(&self) -> String {
        match self {
            Self::Acquired(lease) => format!("acquired, attempt {}", lease.attempt),
            Self::Held { remaining } => format!("held for {remaining:?}"),
            Self::Completed { .. } => "completed".into(),
            Self::KeyReused => "key reused".into(),
            Self::Quarantined => "quarantined".into(),
            Self::Stale => "stale".into(),
            Self::SessionExpired => "session expired".into(),
            Self::BeyondWindow { window } => format!("beyond the window of {window}"),
            Self::Late => "late".into(),
            Self::Ahead { mark, window } => format!("beyond the window of {window} from {mark}"),
        }
    }
}

impl InWords for Intervened {
    fn in_words(&self) -> String {
        match self {
            Self::Applied => "applied",
            Self::Changed => "changed meanwhile",
            Self::Unfit => "unfit",
        }
        .into()
    }
}

impl InWords for Write {
    fn in_words(&self) -> String {
        match self {
            Self::Applied => "applied".into(),
            Self::Fenced => "fenced".into(),
        }
    }
}

impl InWords for u32 {
    fn in_words(&self) -> String {
        format!("{self} removed")
    }
}

impl InWords for Opened {
    fn in_words(&self) -> String {
        match self {
            Self::New => "new".into(),
            Self::Known => "known".into(),
        }
    }
}

impl InWords for Touched {
    fn in_words(&self) -> String {
        match self {
            Self::Living => "living".into(),
            Self::Expired => "expired".into(),
        }
    }
}

impl InWords for () {
    fn in_words(&self) -> String {
        "done".into()
    }
}
