//! Whether no handler is to be started any more.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Closed {
    is_closed: AtomicBool,
    closing: Notify,
}

impl Closed {
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Waits until it is.
    pub(super) async fn closing(&self) {
        let mut closing = pin!(self.closing.notified());
        // Known to wait before it looks: nothing is missed.
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
    }
}
