//! What std lacks for futures: their outputs mapped, boxes of them, and a few of them awaited at once.
//!
//! It stands here so that whoever builds this crate need not build `futures-util`.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

/// A future whose type is forgotten.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What every future can do.
pub(crate) trait FutureExt: Future + Sized {
    /// The future with another output. Unlike an async block, it has room for the future only once.
    fn map<T, M: FnOnce(Self::Output) -> T>(self, map: M) -> Map<Self, M> {
        Map::Running { future: self, map }
    }

    /// The future in a box.
    fn boxed<'a>(self) -> BoxFuture<'a, Self::Output>
    where
        Self: Send + 'a,
    {
        Box::pin(self)
    }
}

impl<F: Future> FutureExt for F {}

pin_project! {
    /// See [`FutureExt::map`].
    #[project = Projected]
    #[project_replace = Taken]
    #[derive(Debug)]
    pub(crate) enum Map<F, M> {
        Running {
            #[pin]
            future: F,
            map: M,
        },
        Ended,
    }
}

impl<F: Future, T, M: FnOnce(F::Output) -> T> Future for Map<F, M> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Projected::Running { future, .. } = self.as_mut().project() else {
            panic!("a future was polled after it had ended");
        };
        let Poll::Ready(output) = future.poll(context) else {
            return Poll::Pending;
        };
        // The future is dropped before its output is mapped.
        match self.project_replace(Self::Ended) {
            Taken::Running { map, .. } => Poll::Ready(map(output)),
            Taken::Ended => unreachable!("it was polled as running just now"),
        }
    }
}

/// The outputs of all of them, in their order. For few: when one is woken, all are polled that still run.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|it| Some(Box::pin(it))).collect();
    let mut outputs: Vec<_> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut all_ended = true;
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            match future.as_mut().map(|it| it.as_mut().poll(context)) {
                Some(Poll::Ready(ended)) => (*future, *output) = (None, Some(ended)),
                Some(Poll::Pending) => all_ended = false,
                None => {}
            }
        }
        if all_ended {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Ready, pending},
        mem::size_of_val,
        pin::pin,
        sync::Arc,
        task::Waker,
    };

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn outputs_come_in_the_order_of_their_futures_whichever_ends_first() {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..40).map(|_| oneshot::channel()).unzip();
        let all = tokio::spawn(join_all(receivers));
        for (number, sender) in senders.into_iter().enumerate().rev() {
            tokio::task::yield_now().await;
            sender.send(number).unwrap();
        }
        let outputs: Vec<_> = all.await.unwrap().into_iter().map(Result::unwrap).collect();
        assert!(outputs.into_iter().eq(0..40));
    }

    #[tokio::test]
    async fn none_at_all_have_ended_at_once() {
        let none: [Ready<()>; 0] = [];
        assert!(join_all(none).await.is_empty());
    }

    #[tokio::test]
    async fn a_future_is_dropped_before_its_output_is_mapped() {
        let held = Arc::new(());
        let holds = Arc::clone(&held);
        let future = poll_fn(move |_| Poll::Ready(Arc::strong_count(&holds)));
        let mapped = future.map(|before| (before, Arc::strong_count(&held)));
        assert_eq!(mapped.await, (2, 1));
    }

    #[test]
    fn a_mapped_future_has_room_for_the_future_once() {
        let large = [0_u8; 1_000];
        let future = async move {
            pending::<()>().await;
            large
        };
        let size = size_of_val(&future);
        let mut mapped = pin!(future.map(|large| large.len()));
        assert!(size_of_val(&*mapped) <= size + 8);
        let polled = mapped
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
}
