//! The members of a worker's groups: they join, poll Kafka, read what is assigned to them, and leave in the end.
//!
//! `worker` takes it through these steps. What must stay true: whatever ends it, a drop included, no handler runs on.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{Reader, read};
use crate::{
    KafkaError,
    consumed_topic::ConsumedTopic,
    group::{Assigned, Member},
    health::HandlerHealth,
    tally::Tally,
};

/// How long partitions may take to be given back when the grace period is over.
const LEAVE: Duration = Duration::from_secs(3);

/// How long Kafka may take to answer what members have asked before.
const ANSWERS: Duration = Duration::from_secs(2);

/// How long Kafka may take to say that members have left their groups.
const LEAVE_GROUP: Duration = Duration::from_secs(5);

/// A topic that the worker reads, as a member of its group.
pub(super) struct Membership {
    pub(super) consumed: Arc<ConsumedTopic>,
    pub(super) member: Member,
    pub(super) assigned: mpsc::UnboundedReceiver<Assigned>,
}

/// Members that have joined their groups.
pub(super) struct Joined {
    members: Vec<Member>,
    /// The tasks that keep the memberships, until a client cannot go on.
    pollers: JoinSet<KafkaError>,
    /// The tasks that start what is assigned, one for each member.
    readers: JoinSet<()>,
    /// What the readers have started.
    tasks: TaskTracker,
    /// Cancelled when nothing more is to start.
    stopping: CancellationToken,
    /// Cancelled when nothing is to run on.
    cut_off: CancellationToken,
    _cut_off: DropGuard,
}

impl Joined {
    /// Nobody has joined yet.
    pub(super) fn new() -> Self {
        let cut_off = CancellationToken::new();
        Self {
            members: Vec::new(),
            pollers: JoinSet::new(),
            readers: JoinSet::new(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            _cut_off: cut_off.clone().drop_guard(),
            cut_off,
        }
    }

    /// Joins a group, keeps the membership, and reads what the group assigns.
    pub(super) fn join(
        &mut self,
        membership: Membership,
        health: HandlerHealth,
        tally: &Arc<Tally>,
    ) -> Result<(), KafkaError> {
        let Membership {
            consumed,
            member,
            assigned,
        } = membership;
        let topic = consumed.topic.name.clone();
        member.join(&topic)?;
        self.members.push(member.clone());
        let (polled, polled_health) = (member.clone(), health.clone());
        self.pollers
            .spawn(async move { polled.poll(&topic, &polled_health).await });
        let reader = Reader {
            consumed,
            member,
            stopping: self.stopping.clone(),
            cut_off: self.cut_off.clone(),
            health,
            tally: Arc::clone(tally),
            tasks: self.tasks.clone(),
        };
        self.readers.spawn(read(assigned, reader));
        Ok(())
    }

    /// How many have joined.
    pub(super) fn count(&self) -> usize {
        self.members.len()
    }

    /// Waits until a client cannot go on, and says why.
    pub(super) async fn until_failed(&mut self) -> KafkaError {
        match self.pollers.join_next().await {
            Some(Ok(error)) => error,
            Some(Err(_)) => KafkaError::new("the code that polls Kafka panicked"),
            // A worker has a topic.
            None => pending().await,
        }
    }

    /// Starts nothing any more. What runs goes on.
    pub(super) fn stop(&self) {
        self.stopping.cancel();
    }

    /// Waits until all that runs has ended, and the partitions are given back. What has not ended within the grace
    /// period is dropped.
    pub(super) async fn drain(&mut self, grace: Duration) {
        let Self {
            readers,
            tasks,
            cut_off,
            ..
        } = self;
        tasks.close();
        let mut drained = pin!(async {
            while readers.join_next().await.is_some() {}
            tasks.wait().await;
        });
        if timeout(grace, &mut drained).await.is_err() {
            tracing::warn!("the grace period is over: what runs is dropped");
            cut_off.cancel();
            let _ = timeout(LEAVE, drained).await;
        }
    }

    /// Leaves the groups, and waits a while for Kafka to say so.
    pub(super) async fn leave(mut self) {
        self.pollers.shutdown().await;
        // All leave at once, if they can: when one leaves, Kafka asks those that are still in its group to join again,
        // and they can leave only after that.
        let answered = join_all(self.members.iter().map(Member::answered));
        let _ = timeout(ANSWERS, answered).await;
        let left = join_all(self.members.into_iter().map(Member::leave));
        let _ = timeout(LEAVE_GROUP, left).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_membership_that_nobody_keeps_any_more_is_noticed() {
        let mut joined = Joined::new();
        joined.pollers.spawn(async { panic!("where it polls") });
        let noticed = timeout(LEAVE, joined.until_failed()).await;
        let error = noticed.expect("it is noticed");
        assert_eq!(error.to_string(), "the code that polls Kafka panicked");
    }
}
