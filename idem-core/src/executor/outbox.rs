//! Hands on what handlers have published, as soon as it is committed.
//!
//! The ends of atomic claims call it. What must stay true:
//!
//! - Nothing is handed on that is not certainly committed.
//! - What is not handed on is left to whoever takes from the store's outbox.
// docs/decisions/0042

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use super::Executor;
use crate::{handler::Outgoing, store::Store};

/// Who publishes what was committed in this process, if anybody does. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Committed(Arc<OnceLock<Publish>>);

type Publish = Box<dyn Fn(Vec<Outgoing>) + Send + Sync>;

impl<S: Store> Executor<S> {
    /// Has what handlers publish handed to this when it is committed. It is to publish what is [left to
    /// it](Outgoing::is_published_by_who_commits), and to [remove](crate::store::outbox::OutboxTable::remove) that from
    /// the store's outbox then; what it does not, others take after [`Outgoing::LEASE`]. It must not block.
    ///
    /// Without it, what is committed can be taken at once. A worker of `idem-amqp` sets it; the first one that is set
    /// stays.
    pub fn when_committed(&self, publish: impl Fn(Vec<Outgoing>) + Send + Sync + 'static) {
        let _ = self.committed.0.set(Box::new(publish));
    }
}

impl Committed {
    /// What is to be written. Where nobody here publishes, its messages are free for others at once.
    pub(super) fn ready(&self, mut outgoing: Vec<Outgoing>) -> Vec<Outgoing> {
        if self.0.get().is_none() {
            outgoing.iter_mut().for_each(Outgoing::wait_for_nobody);
        }
        outgoing
    }

    /// Hands it on.
    pub(super) fn hand_on(&self, outgoing: Vec<Outgoing>) {
        if outgoing.is_empty() {
            return;
        }
        if let Some(publish) = self.0.get() {
            publish(outgoing);
        }
    }
}

impl fmt::Debug for Committed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = self.0.get().is_some();
        f.debug_tuple("Committed").field(&is_set).finish()
    }
}
