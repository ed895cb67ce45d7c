//! Claims ahead of their connections: how many, and when.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

/// How many times as many as there are connections may claim ahead.
const AHEAD: usize = 3;
/// How many times as many are let in together: the others keep the connections busy meanwhile.
const TOGETHER: usize = 2;

/// Those who claim, or have claimed, and wait for a connection. They are let in together, so that
/// their claims share a statement.
#[derive(Clone)]
pub(super) struct Ahead {
    places: Arc<Semaphore>,
    /// Places that are free and not given out yet.
    kept_back: Arc<AtomicUsize>,
    together: usize,
}

/// A place among them, until it is dropped.
pub(in crate::stores::postgres) struct Place(Ahead);

impl Ahead {
    pub(super) fn of(connections: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(AHEAD * connections)),
            kept_back: Arc::default(),
            together: TOGETHER * connections,
        }
    }

    /// First come, first served.
    pub(super) async fn place(&self) -> Place {
        let place = self.places.acquire().await;
        place.expect("the semaphore is never closed").forget();
        Place(self.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Ahead {
            places,
            kept_back,
            together,
        } = &self.0;
        // Whoever makes it enough gives all of them out.
        let free = kept_back.fetch_add(1, Ordering::AcqRel) + 1;
        if free >= *together {
            places.add_permits(kept_back.swap(0, Ordering::AcqRel));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all};

    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_let_in_together() {
        let ahead = Ahead::of(2);
        let mut places = join_all((0..6).map(|_| ahead.place())).await;
        let mut waiting: Vec<_> = (0..6).map(|_| Box::pin(ahead.place())).collect();
        let mut let_in = || {
            let now = waiting
                .iter_mut()
                .map(|place| place.as_mut().now_or_never());
            let now: Vec<_> = now.flatten().collect();
            now.len()
        };
        for free in 1..=3 {
            places.pop();
            assert_eq!(let_in(), 0, "{free} free");
        }
        places.pop();
        assert_eq!(let_in(), 4);
    }

    #[tokio::test]
    async fn no_place_is_lost() {
        let ahead = Ahead::of(1);
        for _ in 0..100 {
            let free = std::iter::from_fn(|| ahead.place().now_or_never());
            let held: Vec<_> = free.collect();
            assert!(!held.is_empty());
            let mut gone = Box::pin(ahead.place());
            assert!(gone.as_mut().now_or_never().is_none());
            drop((held, gone));
            // The runtime lets a task take only so much at a time.
            tokio::task::yield_now().await;
        }
        let places = ahead.places.available_permits() + ahead.kept_back.load(Ordering::Acquire);
        assert_eq!(places, AHEAD);
    }
}
