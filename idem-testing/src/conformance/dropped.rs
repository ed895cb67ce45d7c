//! A call whose future is dropped before it has answered, as when a worker gives up waiting.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};

use tokio::task::yield_now;

/// How often a call is polled before it is dropped: at its first step, and further on its way.
pub(super) const POLLS: [usize; 4] = [1, 2, 3, 6];

/// Polls a call so often, others in between, and drops it.
pub(super) async fn dropped_after<T>(polls: usize, call: impl Future<Output = T>) {
    let mut call = pin!(call);
    for _ in 0..polls {
        if poll_once(call.as_mut()).await.is_some() {
            return;
        }
        yield_now().await;
    }
}

/// What the call has answered, if it has.
pub(super) async fn poll_once<T>(mut call: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
