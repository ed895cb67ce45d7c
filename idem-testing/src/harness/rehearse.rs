//! The harness, as it is asked by `assert_idempotent`.

use std::sync::Arc;

use futures_util::future::join_all;
use idem_core::{
    executor::{Execution, Prepared, RunsOn},
    handler::Handler,
};

use super::Harness;
use crate::{
    Call, CrashPoint, Ending, FaultyStore, Ground, Message, Rehearsal, RehearsalTogether,
    rehearsal::sealed,
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
        Self::new(self.policy, Arc::clone(&self.make), ground)
    }

    async fn forgetful(&self) -> Self {
        let ground = self.ground.forgetful().await;
        let (state, make) = (Arc::clone(&self.state), Arc::clone(&self.make));
        Self::on(ground, state, make, self.policy)
    }

    fn again(message: &Message) -> Message {
        message.redelivered()
    }

    async fn ending(&self, message: &Message) -> Ending {
        let ended = self.deliver_until_done(message).await;
        self.ending_of(message, &ended)
    }

    async fn endings_at_once(&self, message: &Message) -> [Ending; 2] {
        let [one, other] = [self.start_process(), self.start_process()];
        let both = tokio::join!(
            self.deliver_until_done_by(&one, message),
            self.deliver_until_done_by(&other, message)
        );
        [both.0, both.1].map(|ended| self.ending_of(message, &ended))
    }

    async fn crash_or_end(&self, point: CrashPoint, message: &Message) -> Option<Ending> {
        let ended = self.try_crash(point, message).await?;
        Some(self.ending_of(message, &ended))
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
        let deliveries = messages.iter().map(async |message| {
            let ended = self.deliver_until_done_by(&process, message).await;
            self.ending_of(message, &ended)
        });
        join_all(deliveries).await
    }

    async fn crash_together_or_end(
        &self,
        point: CrashPoint,
        messages: &[Message],
    ) -> Option<Ending> {
        let ended = self.try_crash_together(point, messages).await?;
        Some(self.ending_of(messages.first()?, &ended))
    }
}

impl<H, St, G> Harness<H, St, G>
where
    H: Handler<St>,
    H::Mode: RunsOn<FaultyStore<G::Store>>,
    St: Send + Sync + 'static,
    G: Ground,
{
    fn ending_of(&self, message: &Message, ended: &Execution<H::Output, H::Error>) -> Ending {
        let prepared = Prepared::<H>::new(message.envelope(), &self.policy).ok();
        Ending {
            kind: ended.kind(),
            key: prepared.map(|prepared| prepared.key().to_string()),
            error: ended.error(),
        }
    }
}
