//! Counts the messages that were acknowledged: a middleware between the queue and the deduplication.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use async_trait::async_trait;
use mq_bridge::{
    ReceivedBatch, anyhow,
    errors::ConsumerError,
    extensions::register_middleware_factory,
    models::Middleware,
    traits::{BoxFuture, CustomMiddlewareFactory, MessageConsumer, MessageDisposition},
};
use tokio::sync::Notify;

use crate::Result;

/// The name that the configuration of a route knows it by.
const NAME: &str = "settled";

/// How many messages were acknowledged; clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settled(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    acknowledged: AtomicUsize,
    more: Notify,
}

impl Settled {
    /// One that [the middleware](Self::middleware) counts with.
    pub(crate) fn register() -> Result<Self> {
        let settled = Self::default();
        register_middleware_factory(NAME, Arc::new(settled.clone()))?;
        Ok(settled)
    }

    pub(crate) fn middleware() -> Middleware {
        Middleware::Custom {
            name: NAME.to_owned(),
            config: serde_json::Value::Null,
        }
    }

    /// Waits until so many are. One waits at a time.
    pub(crate) async fn wait_for(&self, messages: usize) {
        while self.0.acknowledged.load(Relaxed) < messages {
            self.0.more.notified().await;
        }
    }

    fn count(&self, acknowledged: usize) {
        self.0.acknowledged.fetch_add(acknowledged, Relaxed);
        self.0.more.notify_one();
    }
}

#[async_trait]
impl CustomMiddlewareFactory for Settled {
    async fn apply_consumer(
        &self,
        queue: Box<dyn MessageConsumer>,
        _route: &str,
        _config: &serde_json::Value,
    ) -> anyhow::Result<Box<dyn MessageConsumer>> {
        let settled = self.clone();
        Ok(Box::new(Counted { queue, settled }))
    }
}

struct Counted {
    queue: Box<dyn MessageConsumer>,
    settled: Settled,
}

#[async_trait]
impl MessageConsumer for Counted {
    async fn receive_batch(&mut self, most: usize) -> Result<ReceivedBatch, ConsumerError> {
        let ReceivedBatch { messages, commit } = self.queue.receive_batch(most).await?;
        let settled = self.settled.clone();
        let commit = move |dispositions: Vec<MessageDisposition>| -> BoxFuture<'static, _> {
            let acks = dispositions.iter();
            let acks = acks.filter(|disposition| matches!(disposition, MessageDisposition::Ack));
            let acknowledged = acks.count();
            Box::pin(async move {
                commit(dispositions).await?;
                settled.count(acknowledged);
                Ok(())
            })
        };
        Ok(ReceivedBatch {
            messages,
            commit: Box::new(commit),
        })
    }

    // All else is the queue's.

    fn set_exit_on_empty(&mut self, exit_on_empty: bool) {
        self.queue.set_exit_on_empty(exit_on_empty);
    }

    fn commit_requires_order(&self) -> bool {
        self.queue.commit_requires_order()
    }

    fn on_connect_hook(&self) -> Option<BoxFuture<'_, anyhow::Result<()>>> {
        self.queue.on_connect_hook()
    }

    fn on_disconnect_hook(&self) -> Option<BoxFuture<'_, anyhow::Result<()>>> {
        self.queue.on_disconnect_hook()
    }

    fn as_any(&self) -> &dyn Any {
        self.queue.as_any()
    }
}
