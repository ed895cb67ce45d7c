//! The harness, as it is asked by `assert_idempotent`.

use std::sync::Arc;

use futures_util::future::join_all;
use idem_core::{executor::RunsOn, handler::Handler};

use super::{
    super::{Delivered, Message},
    Harness,
};
use crate::{
    Call, CrashPoint, Ending, FaultyStore, Ground, Rehearsal, RehearsalTogether, rehearsal::sealed,
};

impl<H, St, G: Ground> sealed::Rehearsal for Harness<H, St, G> {}

impl<H, St, G> Rehearsal for Harness<H, St, G>
where
    H: Handler<St>,
    H::Mode: RunsOn<FaultyStore<G::Store>>,
    St: Send + Sync + 'static,
    G: Ground,
{
    type Message = Message;

    fn scope(&self) -> &'static str {
        H::SCOPE
    }

    async fn fresh(&self) -> Self {
        let ground = self.ground.fresh().await;
        let state = Arc::new((self.make)(&ground));
        self.another(ground, state).await
    }

    async fn forgetful(&self) -> Self {
        let ground = self.ground.forgetful().await;
        self.another(ground, Arc::clone(&self.state)).await
    }

    fn again(message: &Message) -> Message {
        message.redelivered()
    }

    async fn ending(&self, message: &Message) -> Ending {
        ending(self.deliver_until_done(message).await)
    }

    async fn endings_at_once(&self, message: &Message) -> [Ending; 2] {
        let [one, other] = [self.start_process(), self.start_process()];
        let both = tokio::join!(
            self.deliver_until_done_by(&one, message),
            self.deliver_until_done_by(&other, message)
        );
        [both.0, both.1].map(ending)
    }

    async fn crash_or_end(&self, point: CrashPoint, message: &Message) -> Option<Ending> {
        self.try_crash(point, message).await.map(ending)
    }

    fn lose_answer(&self, call: Call) {
        self.store().lose_next_answer(call);
    }
}

impl<H, St, G> RehearsalTogether for Harness<H, St, G>
where
    H: Handler<St>,
    H::Mode: RunsOn<FaultyStore<G::Store>>,
    St: Send + Sync + 'static,
    G: Ground,
{
    async fn endings_together(&self, messages: &[Message]) -> Vec<Ending> {
        let process = self.start_sharing_process();
        let deliveries = messages
            .iter()
            .map(|it| self.deliver_until_done_by(&process, it));
        let delivered = join_all(deliveries).await;
        delivered.into_iter().map(ending).collect()
    }

    async fn crash_together_or_end(
        &self,
        point: CrashPoint,
        messages: &[Message],
    ) -> Option<Ending> {
        let delivered = self.try_crash_together(point, messages).await;
        delivered.map(ending)
    }
}

impl<H, St, G> Harness<H, St, G>
where
    H: Handler<St>,
    H::Mode: RunsOn<FaultyStore<G::Store>>,
    St: Send + Sync + 'static,
    G: Ground,
{
    /// One on another ground, where the sessions that were opened here are open, too.
    async fn another(&self, ground: G, state: Arc<St>) -> Self {
        let (make, queue) = (Arc::clone(&self.make), self.queue.clone());
        let Some(served) = &self.served else {
            return Self::on(ground, state, make, queue);
        };
        let another = Self::in_sessions(ground, state, make, queue, served.sessions);
        let another = another.expect("it was possible here");
        another.open_again(&served.opened()).await;
        another
    }
}

fn ending(delivered: Delivered) -> Ending {
    Ending {
        kind: delivered.kind,
        key: delivered.key.map(|key| key.to_string()),
        error: delivered.error,
    }
}
