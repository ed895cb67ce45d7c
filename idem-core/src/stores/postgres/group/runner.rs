//! Runs groups: begin, one member after the other, commit.
//!
//! A task of a handler's `Queue` owns it. What must stay true:
//!
//! - A member is told `Committed` only after the answer to the commit that holds its completion.
//! - What a failed member wrote is undone before the next one begins.

use std::mem;

use tokio::{sync::oneshot, time::Instant};

use super::{
    lost::{self, Lost},
    mark::{self, GroupEnd, Mark},
    queue::{Given, Queue, Running},
    shared_transaction::{Last, SharedTransaction},
    slot::{GivenBack, GroupMember, Slot},
    statement,
};
use crate::{
    store::{Finished, StoreError},
    stores::postgres::{
        PostgresStore,
        atomic::{Connection, PooledTransaction},
        exchange::Nonce,
    },
};

const NOT_TOLD: &str = "the server does not tell what became of a group's transaction";

/// One group.
pub(super) struct GroupRunner<'a> {
    store: &'a PostgresStore,
    queue: &'a Queue,
    /// How many can still be given a slot.
    slots: usize,
    opened: Instant,
    /// Those whose writes are kept, if the transaction is committed.
    members: Vec<GroupMember>,
    /// The mark by which others see whether a handler has committed by itself. It is there once a handler can have
    /// done that to another message.
    mark: Option<Mark>,
}

impl<'a> GroupRunner<'a> {
    /// Runs one group after the other, as long as somebody waits.
    pub(super) async fn run_all(store: PostgresStore, mut running: Running, size: usize) {
        loop {
            match PooledTransaction::of_group(&store.pool, &store.groups.steps.begin).await {
                Ok(open) => {
                    GroupRunner::new(&store, &running.queue, size)
                        .run(open)
                        .await;
                }
                Err(fault) => return running.fails(&fault),
            }
            if !running.goes_on() {
                return;
            }
        }
    }

    fn new(store: &'a PostgresStore, queue: &'a Queue, size: usize) -> Self {
        Self {
            store,
            queue,
            slots: size.max(1),
            opened: Instant::now(),
            members: Vec::new(),
            mark: None,
        }
    }

    async fn run(mut self, open: PooledTransaction) {
        let mut shared = SharedTransaction::new(open);
        while let Some(waiting) = self.next() {
            if let Err(lost) = self.tidy(&mut shared).await {
                self.queue.put_back(waiting);
                return self.lose(shared, lost).await;
            }
            match self.slot(shared, waiting).await {
                Some(left) => shared = left,
                None => return self.end(|| Ok(Finished::RolledBack)),
            }
        }
        self.close(shared).await;
    }

    /// Who comes next, if somebody waits and there is a slot left.
    fn next(&self) -> Option<oneshot::Sender<Given>> {
        if self.slots == 0 || self.opened.elapsed() >= self.store.groups.takes_for {
            return None;
        }
        self.queue.next()
    }

    /// Lends the transaction, and waits until it is back; `None` if whoever had it has gone without
    /// a trace.
    async fn slot(
        &mut self,
        shared: SharedTransaction,
        waiting: oneshot::Sender<Given>,
    ) -> Option<SharedTransaction> {
        let (slot, back) = Slot::new(shared.open);
        if let Err(Ok(refused)) = waiting.send(Ok(slot)) {
            return refused.clear().map(SharedTransaction::new);
        }
        self.slots -= 1;
        let (open, last) = match back.await.ok()? {
            GivenBack::Left(open, member) => (open, Last::Success(member)),
            GivenBack::Dropped(open) => (open, Last::Failure),
        };
        Some(SharedTransaction { open, last })
    }

    /// Keeps or undoes what the last one has written. Then there is a savepoint for the next.
    async fn tidy(&mut self, shared: &mut SharedTransaction) -> Result<(), Lost> {
        let (steps, address) = (&self.store.groups.steps, &self.store.address);
        let mark = self.members.is_empty().then(Mark::new);
        match mem::replace(&mut shared.last, Last::Nothing) {
            Last::Nothing => Ok(()),
            Last::Failure => shared.undo(steps, address).await,
            Last::Success(member) => {
                let set_mark = mark.map(|mark| mark.put_into(&self.store.sql.group_mark));
                let set_mark = set_mark.unwrap_or_default();
                match shared.keep(steps, address, &set_mark).await {
                    Ok(()) => {
                        self.mark = self.mark.or(mark);
                        self.members.push(member);
                        Ok(())
                    }
                    Err(fault) => {
                        member.tell(Ok(Finished::RolledBack));
                        if lost::is_aborted(&fault) {
                            return shared.undo(steps, address).await;
                        }
                        Err(lost::of(fault))
                    }
                }
            }
        }
    }

    /// Commits, if there is anything to commit.
    async fn close(mut self, mut shared: SharedTransaction) {
        if let Last::Failure = shared.last
            && !self.members.is_empty()
            && let Err(lost) = self.tidy(&mut shared).await
        {
            return self.lose(shared, lost).await;
        }
        let nonce = Nonce::new();
        let Some(completion) = self.completion(&shared.last, nonce) else {
            return self.store.roll_back_open(shared.open).await;
        };
        let members = self.members.len() + usize::from(shared.last.success().is_some());
        self.store.groups.batches.sent(members);
        match shared.commit(&self.store.address, completion, nonce).await {
            Ok(connection) => {
                if connection == Connection::Clean {
                    shared.open.give_back();
                }
                self.members.extend(shared.last.into_success());
                self.end(|| Ok(Finished::Committed));
            }
            Err(fault) if lost::is_aborted(&fault) && shared.last.success().is_some() => {
                if let Some(culprit) = mem::replace(&mut shared.last, Last::Failure).into_success()
                {
                    culprit.tell(Ok(Finished::RolledBack));
                }
                Box::pin(self.close(shared)).await;
            }
            Err(fault) => self.lose(shared, lost::of(fault)).await,
        }
    }

    /// What completes all members; `None` if there is none.
    fn completion(&self, last: &Last, nonce: Nonce) -> Option<String> {
        let members = self.members.iter().chain(last.success());
        let members: Vec<_> = members.map(GroupMember::completion).collect();
        let (sql, skew) = (&self.store.sql, self.store.clock.skew());
        (!members.is_empty())
            .then(|| statement::complete_all(sql, &members, skew, nonce, self.mark))
    }

    /// The transaction has ended in another way than by its commit.
    async fn lose(mut self, shared: SharedTransaction, lost: Lost) {
        let SharedTransaction { open, last } = shared;
        match lost {
            Lost::RolledBack => {
                open.give_up();
                self.members.extend(last.into_success());
                self.end(|| Ok(Finished::RolledBack));
            }
            Lost::Unknown(fault) => {
                open.give_up();
                // It may have been the one to break the connection, after a commit of its own.
                if let Some(last) = last.into_success() {
                    last.tell(Err(fault.unavailable()));
                }
                self.find_out().await;
            }
            Lost::Ended => {
                // It fares as it would without a group.
                if let Some(culprit) = last.into_success() {
                    culprit.tell(Ok(Finished::RolledBack));
                }
                self.store.roll_back_open(open).await;
                self.find_out().await;
            }
        }
    }

    /// Perhaps what the members have written is committed: a handler can do that, too, or roll it back.
    async fn find_out(self) {
        let Some(mark) = self.mark else {
            return self.end(|| Ok(Finished::RolledBack));
        };
        match mark::ask_end(self.store, mark, &self.members).await {
            Ok(Some(GroupEnd::Committed)) => self.end(|| Ok(Finished::Committed)),
            Ok(Some(GroupEnd::CommittedByHandler)) => self.end(|| Ok(Finished::WithoutCompletion)),
            Ok(Some(GroupEnd::RolledBack)) => self.end(|| Ok(Finished::RolledBack)),
            Ok(None) => self.end(|| Err(StoreError::unavailable(NOT_TOLD))),
            Err(fault) => self.end(|| Err(fault.unavailable())),
        }
    }

    fn end(self, end: impl Fn() -> Result<Finished, StoreError>) {
        for member in self.members {
            member.tell(end());
        }
    }
}
