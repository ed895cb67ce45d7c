//! What happened so far, and waiting, within a limit, for what is to happen.

use std::{fmt::Debug, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

/// How long anything may take. Far above what is needed, for machines that are busy.
pub const LIMIT: Duration = Duration::from_mins(1);

/// What is still under way does something more often than this.
const STUCK: Duration = Duration::from_secs(30);

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
        let (deadline, mut changed_last) = (Instant::now() + LIMIT, Instant::now());
        loop {
            let so_far = entries.borrow_and_update().clone();
            if enough(&so_far) {
                return so_far;
            }
            if timeout_at(deadline, entries.changed()).await.is_err() {
                let in_vain = in_vain(changed_last.elapsed());
                panic!("{in_vain}: {awaited}; so far: {so_far:#?}")
            }
            changed_last = Instant::now();
        }
    }

    /// Waits until there are this many entries.
    pub async fn count(&self, awaited: &str, count: usize) -> Vec<T> {
        self.until(awaited, |entries| entries.len() >= count).await
    }
}

/// What a wait in vain is called. A machine may be too busy for what still goes on, so that a test may be tried again;
/// where nothing has happened for long, something is stuck or lost.
fn in_vain(nothing_since: Duration) -> String {
    if nothing_since < STUCK {
        format!("not within {LIMIT:?}")
    } else {
        format!("stuck, for nothing has happened for {nothing_since:?}")
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
        Err(Unchanged { seen, since }) => {
            let in_vain = in_vain(since.elapsed());
            panic!("{in_vain}: {awaited}; seen last: {seen}")
        }
    }
}

/// What was seen last in a wait in vain, and since when it has been so.
#[derive(Debug)]
pub struct Unchanged {
    /// What was seen, for people.
    pub seen: String,
    since: Instant,
}

/// As [`eventually`]; what was seen last if there is no answer within the limit.
///
/// # Errors
/// If there is none.
///
/// # Panics
/// If a single look takes longer than the limit.
pub async fn looking<T, S: Debug, Fut>(
    awaited: &str,
    mut look: impl FnMut() -> Fut,
) -> Result<T, Unchanged>
where
    Fut: Future<Output = Result<T, S>>,
{
    let begun = Instant::now();
    let mut last = Unchanged {
        seen: String::new(),
        since: begun,
    };
    loop {
        let seen = match within(awaited, look()).await {
            Ok(found) => return Ok(found),
            Err(seen) => format!("{seen:#?}"),
        };
        if seen != last.seen {
            last = Unchanged {
                seen,
                since: Instant::now(),
            };
        }
        if begun.elapsed() > LIMIT {
            return Err(last);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_during_which_something_happened_may_be_tried_again() {
        assert_eq!(in_vain(Duration::from_secs(29)), "not within 60s");
        let stuck = in_vain(Duration::from_secs(30));
        assert!(stuck.starts_with("stuck"), "{stuck}");
    }

    /// What a wait for ever says that sees the first of these now, and the second after so many seconds.
    async fn said_of(second_after: u64) -> String {
        let begun = Instant::now();
        let look = async || -> Result<(), bool> {
            Err(begun.elapsed() >= Duration::from_secs(second_after))
        };
        let waiting = std::panic::AssertUnwindSafe(eventually("a letter", look));
        let panic = futures_util::FutureExt::catch_unwind(waiting).await;
        let said = panic.expect_err("it comes never").downcast::<String>();
        *said.expect("it says what was awaited")
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_alike_for_long_is_stuck() {
        let said = said_of(40).await;
        assert_eq!(said, "not within 60s: a letter; seen last: true");
        let said = said_of(20).await;
        assert!(said.starts_with("stuck, "), "{said}");
        assert!(said.ends_with(": a letter; seen last: true"), "{said}");
    }
}
