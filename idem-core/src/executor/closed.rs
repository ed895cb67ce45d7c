//! Whether no handler is to be started any more.
//!
//! [`Executor::close`](crate::Executor::close) closes; each mode looks once more when it has claimed, before it calls the
//! handler. What must stay true: once closed, it stays so, and whoever waits for it is woken.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Set once. Clones of an executor share one.
#[derive(Debug, Default)]
pub(super) struct Closed {
    is_closed: AtomicBool,
    /// Wakes those that wait in [`closing`](Self::closing).
    closing: Notify,
}

impl Closed {
    /// Lets no further handler start.
    pub(super) fn close(&self) {
        // Before the others are woken: they look at it.
        self.is_closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Waits until it is closed; returns at once if it is. A dropped call leaves nothing behind.
    pub(super) async fn closing(&self) {
        let mut closing = pin!(self.closing.notified());
        // Registered before the look: a `close` between the two would wake nobody, and this would wait for ever.
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
    }
}
