//! What happened so far, and waiting, within a limit, for what is to happen.

use std::{fmt::Debug, time::Duration};

use tokio::{sync::watch, time::timeout};

/// How long anything may take. Far above what is needed, for machines that are busy.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Entries in the order in which they were written. Clones share them.
#[derive(Debug, Clone)]
pub struct Journal<T>(watch::Sender<Vec<T>>);

impl<T> Default for Journal<T> {
    fn default() -> Self {
        Self(watch::Sender::new(Vec::new()))
    }
}

impl<T: Clone + Debug> Journal<T> {
    /// Adds an entry.
    pub fn write(&self, entry: T) {
        self.0.send_modify(|entries| entries.push(entry));
    }

    /// All entries so far.
    pub fn entries(&self) -> Vec<T> {
        self.0.borrow().clone()
    }

    /// Waits until the entries are enough, and returns them.
    ///
    /// # Panics
    /// If they are not within the limit: says what was awaited and what was there.
    pub async fn until(&self, awaited: &str, enough: impl Fn(&[T]) -> bool) -> Vec<T> {
        let mut entries = self.0.subscribe();
        let enough = entries.wait_for(|entries| enough(entries));
        let Ok(entries) = timeout(LIMIT, enough).await else {
            let so_far = self.entries();
            panic!("not within {LIMIT:?}: {awaited}; so far: {so_far:#?}")
        };
        let entries = entries.expect("the sender is `self`, which is borrowed");
        entries.clone()
    }

    /// Waits until there are this many entries.
    pub async fn count(&self, awaited: &str, count: usize) -> Vec<T> {
        self.until(awaited, |entries| entries.len() >= count).await
    }
}

/// Waits for a future.
///
/// # Panics
/// If it does not resolve within the limit: says what was awaited.
pub async fn within<F: Future>(awaited: &str, future: F) -> F::Output {
    let Ok(output) = timeout(LIMIT, future).await else {
        panic!("not within {LIMIT:?}: {awaited}")
    };
    output
}

/// Looks again and again until there is an answer.
///
/// # Panics
/// If there is none within the limit: says what was awaited and what was seen last.
pub async fn eventually<T, S: Debug, Fut>(awaited: &str, look: impl FnMut() -> Fut) -> T
where
    Fut: Future<Output = Result<T, S>>,
{
    match looking(awaited, look).await {
        Ok(found) => found,
        Err(seen) => panic!("not within {LIMIT:?}: {awaited}; seen last: {seen:#?}"),
    }
}

/// The same; what was seen last if there is no answer within the limit.
///
/// # Errors
/// If there is none.
///
/// # Panics
/// If a single look takes longer than the limit.
pub async fn looking<T, S, Fut>(awaited: &str, mut look: impl FnMut() -> Fut) -> Result<T, S>
where
    Fut: Future<Output = Result<T, S>>,
{
    let deadline = tokio::time::Instant::now() + LIMIT;
    loop {
        match within(awaited, look()).await {
            Err(_) if tokio::time::Instant::now() <= deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            found_or_seen_last => return found_or_seen_last,
        }
    }
}
