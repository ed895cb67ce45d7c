//! One call: its request is sent, and sent again, until there is a reply.

use std::{ops::ControlFlow, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use tracing::Instrument as _;

use super::{
    call_state::{Answered, CallState, Fault, Problem},
    connection_loop::Order,
    message::Message,
    pending_calls::{PendingCalls, Waiting},
    reply::RawReply,
    retry_interval::RetryInterval,
};
use crate::telemetry::{self, spans};

/// One call. Dropping it leaves nothing behind.
pub(super) struct OngoingCall {
    message: Arc<Message>,
    retry_interval: RetryInterval,
    orders: mpsc::Sender<Order>,
    waiting: Waiting,
    state: CallState,
    /// Answered when the connection is about to send the next try.
    ordered: Option<oneshot::Receiver<CancellationToken>>,
}

/// A reply, and how many tries it took: it may be to any of them.
#[derive(Debug)]
pub(super) struct ReceivedReply {
    pub(super) reply: RawReply,
    pub(super) tries: u32,
}

impl OngoingCall {
    pub(super) fn new(
        message: Message,
        retry_interval: RetryInterval,
        orders: mpsc::Sender<Order>,
        pending_calls: &Arc<PendingCalls>,
    ) -> Self {
        Self {
            message: Arc::new(message),
            retry_interval,
            orders,
            waiting: pending_calls.register(),
            state: CallState::default(),
            ordered: None,
        }
    }

    /// Holds it inside of a span of its own, whose context the request carries at every try.
    pub(super) async fn hold_traced(
        self,
        deadline: Duration,
        pending_calls: &PendingCalls,
    ) -> Result<ReceivedReply, Fault> {
        let (message, correlation_id) = (&self.message, self.waiting.correlation_id());
        let size = message.body.len();
        let span = spans::call(message.queue.as_str(), message.id(), correlation_id, size);
        let held = async move {
            let message = telemetry::inject(Arc::unwrap_or_clone(self.message));
            let message = Arc::new(message);
            let held = Self { message, ..self }.hold(deadline, pending_calls).await;
            match &held {
                Ok(told) => spans::answered(told.tries),
                Err(fault) => spans::unanswered(fault.label(), fault),
            }
            held
        };
        held.instrument(span).await
    }

    /// Sends the request again and again until there is a reply, or the deadline has passed.
    pub(super) async fn hold(
        mut self,
        deadline: Duration,
        pending_calls: &PendingCalls,
    ) -> Result<ReceivedReply, Fault> {
        let answered = async {
            loop {
                if let ControlFlow::Break(answered) = self.try_once().await {
                    return answered;
                }
            }
        };
        match timeout(deadline, answered).await {
            Ok(Some(reply)) => Ok(ReceivedReply {
                reply,
                tries: self.state.tries(),
            }),
            Ok(None) => {
                self.waiting.lose_hope();
                Err(self.end(pending_calls.outage()))
            }
            Err(_) => Err(self.end(pending_calls.outage())),
        }
    }

    async fn try_once(&mut self) -> Answered {
        let connection_ended = self.send().await?;
        self.listen(connection_ended).await
    }

    /// Waits until the request can be sent, and sends it. An earlier try may be answered before.
    async fn send(&mut self) -> ControlFlow<Option<RawReply>, CancellationToken> {
        let (let_go, ordered) = oneshot::channel();
        let order = Order {
            message: Arc::clone(&self.message),
            correlation_id: self.waiting.correlation_id().to_owned(),
            let_go,
        };
        let ordered = self.ordered.insert(ordered);
        let sent = async {
            self.orders.send(order).await.ok()?;
            ordered.await.ok()
        };
        let connection_ended = {
            let mut sent = pin!(sent);
            loop {
                tokio::select! {
                    biased;
                    event = self.waiting.event() => self.state.heed(event)?,
                    sent = &mut sent => break sent,
                }
            }
        };
        match connection_ended {
            Some(connection_ended) => {
                self.ordered = None;
                self.state.sent();
                ControlFlow::Continue(connection_ended)
            }
            // The client's task has ended, with its runtime.
            None => ControlFlow::Break(None),
        }
    }

    /// Waits for the reply, until it is time to try again.
    async fn listen(&mut self, connection_ended: CancellationToken) -> Answered {
        let retry_interval = self.retry_interval.after(self.state.silent());
        let mut silence = pin!(sleep(retry_interval));
        loop {
            let problem = tokio::select! {
                biased;
                event = self.waiting.event() => {
                    self.state.heed(event)?;
                    if self.state.all_came_back() {
                        return ControlFlow::Break(None);
                    }
                    continue;
                }
                () = connection_ended.cancelled() => Problem::Lost,
                () = &mut silence => Problem::Silent(retry_interval),
            };
            self.state.note(problem);
            return ControlFlow::Continue(());
        }
    }

    /// What is known when no reply is waited for any more.
    fn end(mut self, outage: Option<String>) -> Fault {
        if self.stop_sending() {
            self.state.sent();
        }
        self.state.end(outage)
    }

    /// After this, no try is let go any more. Says whether one was in this very moment.
    fn stop_sending(&mut self) -> bool {
        self.ordered.as_mut().is_some_and(|ordered| {
            ordered.close();
            ordered.try_recv().is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn call(orders: mpsc::Sender<Order>, pending_calls: &Arc<PendingCalls>) -> OngoingCall {
        let message = Message::json("leases", &"a").unwrap();
        OngoingCall::new(message, RetryInterval::new(LONG), orders, pending_calls)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_not_sent_by_the_deadline_is_not_sent_after_it() {
        let pending_calls = PendingCalls::new();
        let (orders, mut ordered) = mpsc::channel(1);
        let held = call(orders, &pending_calls)
            .hold(LONG, &pending_calls)
            .await;
        assert!(matches!(held, Err(Fault::Unsent(_))), "{held:?}");
        let order = ordered.recv().await.unwrap();
        assert!(order.let_go.send(CancellationToken::new()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_let_go_at_the_deadline_may_run() {
        let pending_calls = PendingCalls::new();
        let (orders, mut ordered) = mpsc::channel(1);
        let mut call = call(orders, &pending_calls);
        tokio::select! {
            biased;
            _ = call.send() => unreachable!("nobody lets it go"),
            () = sleep(LONG) => {}
        }
        let order = ordered.recv().await.unwrap();
        order.let_go.send(CancellationToken::new()).unwrap();
        assert!(matches!(call.end(None), Fault::Unknown(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_sent_again_when_there_is_silence_and_at_once_when_the_connection_ends() {
        let pending_calls = PendingCalls::new();
        let (orders, mut ordered) = mpsc::channel(1);
        let call = call(orders, &pending_calls);
        let begun = tokio::time::Instant::now();
        let held = tokio::spawn(async move { call.hold(10 * LONG, &PendingCalls::new()).await });

        let connection = CancellationToken::new();
        let first = ordered.recv().await.unwrap();
        first.let_go.send(connection.clone()).unwrap();
        let second = ordered.recv().await.unwrap();
        assert!(begun.elapsed() >= LONG, "{:?}", begun.elapsed());
        second.let_go.send(connection.clone()).unwrap();
        let tried_again = begun.elapsed();
        connection.cancel();
        let third = ordered.recv().await.unwrap();
        assert_eq!(begun.elapsed(), tried_again, "without another wait");
        assert_eq!(first.correlation_id, third.correlation_id);
        assert!(Arc::ptr_eq(&first.message, &third.message));

        let reply = RawReply::new(b"1".to_vec(), None);
        pending_calls.reply(Some(&third.correlation_id), reply);
        assert!(held.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_client_has_ended_ends() {
        let pending_calls = PendingCalls::new();
        let (orders, ordered) = mpsc::channel(1);
        drop(ordered);
        let held = call(orders, &pending_calls)
            .hold(LONG, &pending_calls)
            .await;
        assert!(matches!(held, Err(Fault::Unsent(_))), "{held:?}");
    }
}
