//! Work that ends, also if nobody waits for it any more.
//!
//! The service waits for it in the task of its connection, which costs nothing. What is dropped before its end, because
//! the client has gone or has waited long enough, goes on in a task of its own.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

/// Work that was begun. Dropped, it goes on.
pub(crate) struct DetachOnDrop<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    /// `None` when it has ended.
    work: Option<Pin<Box<F>>>,
    /// Whoever drops it may be on a thread without a runtime.
    runtime: Handle,
}

/// What a panic carries.
pub(crate) type Panic = Box<dyn Any + Send>;

impl<F> DetachOnDrop<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    /// Must be called on the runtime on which the work is to end.
    pub(crate) fn new(work: F) -> Self {
        Self {
            work: Some(Box::pin(work)),
            runtime: Handle::current(),
        }
    }
}

impl<F> Future for DetachOnDrop<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.work.as_mut().expect("it has not ended before");
        // As a task does: a panic must not close the connection, on which other requests may be under way.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        let ended = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(panic),
        };
        self.work = None;
        Poll::Ready(ended)
    }
}

impl<F> Drop for DetachOnDrop<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        #[cfg(feature = "testing")]
        if ENDS.get() {
            return;
        }
        if let Some(work) = self.work.take() {
            // A runtime that shuts down drops it: then the lease runs out, as after a crash.
            self.runtime.spawn(work);
        }
    }
}

#[cfg(feature = "testing")]
std::thread_local! {
    /// Whether what is dropped on this thread ends with its process.
    static ENDS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Drops a request as a process that is killed does: what was begun of it does not go on.
#[cfg(feature = "testing")]
pub fn end_with_process<T>(request: T) {
    /// A panic must not end the requests of others.
    struct GoOn;
    impl Drop for GoOn {
        fn drop(&mut self) {
            ENDS.set(false);
        }
    }
    ENDS.set(true);
    let _go_on = GoOn;
    drop(request);
}

#[cfg(test)]
mod tests {
    use std::{future::pending, thread, time::Duration};

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn what_is_dropped_in_the_middle_goes_on_wherever_it_is_dropped() {
        let (go_on, gate) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let mut work = DetachOnDrop::new(async move {
            gate.await.unwrap();
            end.send(()).unwrap();
        });
        let waiting = timeout(Duration::from_millis(1), &mut work);
        assert!(waiting.await.is_err());
        // Without a runtime of its own.
        thread::spawn(move || drop(work)).join().unwrap();
        go_on.send(()).unwrap();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn what_has_ended_leaves_nothing_behind() {
        let work = DetachOnDrop::new(async { 17 });
        assert_eq!(work.await.unwrap(), 17);
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
        let panicked = DetachOnDrop::new(async { panic!("it panics") });
        let panic = panicked.await.map(|(): ()| ()).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"it panics"));
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
        drop(DetachOnDrop::new(pending::<()>()));
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    }

    #[cfg(feature = "testing")]
    #[tokio::test]
    async fn what_ends_with_its_process_does_not_go_on() {
        end_with_process(DetachOnDrop::new(pending::<()>()));
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
        drop(DetachOnDrop::new(pending::<()>()));
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    }
}
