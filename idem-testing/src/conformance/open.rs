//! A worker inside an open transaction, for the cases of stores that lend theirs.

use std::{sync::Arc, time::Duration};

use idem_core::{
    handler::{Outcome, Outgoing},
    store::{
        Begun, Claim, Completion, Finish, Finished, Lease, MarkMove, Opening, Release, Store as _,
        TransactionalStore, Write,
    },
};

use super::{RETENTION, Rule, Scene, TransactionalHarness, claimant::Claimant};

/// The transaction that a harness' store opens.
type Transaction<H> = <<H as super::Harness>::Store as TransactionalStore<
    <H as TransactionalHarness>::Tx,
>>::Transaction;

/// A claim whose transaction is open.
pub(super) struct Open<H: TransactionalHarness> {
    store: Arc<H::Store>,
    pub(super) lease: Lease,
    transaction: Transaction<H>,
}

/// Claims and opens the transaction, or says what the store answered instead.
pub(super) async fn begin<H: TransactionalHarness>(
    claimant: &Claimant<H::Store>,
) -> Result<Open<H>, Claim> {
    let store = Arc::clone(&claimant.store);
    let begun = TransactionalStore::<H::Tx>::begin(&*store, &claimant.request).await;
    match Rule::Atomic.answer(begun) {
        Begun::Acquired(lease, transaction) => Ok(Open {
            store,
            lease,
            transaction,
        }),
        Begun::Not(claim) => Err(claim),
    }
}

impl<H: TransactionalHarness> Open<H> {
    /// Claims a key that must be free, and opens the transaction.
    pub(super) async fn of(claimant: &Claimant<H::Store>) -> Self {
        match begin(claimant).await {
            Ok(open) => open,
            Err(claim) => panic!(
                "{}\n  here: the key is free\n  expected a transaction, the store answered {claim:?}",
                Rule::Atomic
            ),
        }
    }

    /// Opens what was claimed ahead.
    pub(super) async fn ahead(
        claimant: &Claimant<H::Store>,
        lease: Lease,
        opening: Opening<'_, Transaction<H>>,
    ) -> Self {
        Self {
            store: Arc::clone(&claimant.store),
            lease,
            transaction: Rule::Ahead.answer(opening.await),
        }
    }

    /// Commits, which must succeed.
    pub(super) async fn commits(self) {
        let commit = self.commit("done").await;
        assert!(
            commit == Finished::Committed,
            "{}\n  here: nothing speaks against the commit, the store answered {commit:?}",
            Rule::Atomic
        );
    }

    /// Tries to commit, which must fail.
    pub(super) async fn must_be_refused(self) {
        let commit = self.commit("done").await;
        assert!(
            matches!(commit, Finished::Refused { .. }),
            "{}\n  here: the handler ended the transaction, the store answered {commit:?}",
            Rule::Atomic
        );
    }

    /// Rolls back, which must be recorded.
    pub(super) async fn rolls_back(self, reason: &Release) {
        let write = self.roll_back(reason).await;
        assert!(
            write == Write::Applied,
            "{}\n  here: the holder releases ({reason:?}), the store answered {write:?}",
            Rule::Atomic
        );
    }

    /// Does what a handler would.
    pub(super) async fn write_effect(&mut self, name: &str) {
        H::write_effect(self.lend(), name).await;
    }

    /// What the handler gets.
    pub(super) fn lend(&mut self) -> &mut H::Tx {
        <H::Store as TransactionalStore<H::Tx>>::lend(&mut self.transaction)
    }

    /// Renews the claim beside the open transaction.
    pub(super) async fn extend(&self, by: Duration) -> Write {
        let extended = TransactionalStore::<H::Tx>::extend_open(&*self.store, &self.lease, by);
        Rule::Atomic.answer(extended.await)
    }

    pub(super) async fn commit(self, outcome: &str) -> Finished {
        self.commit_for(outcome, RETENTION).await
    }

    pub(super) async fn commit_for(self, outcome: &str, retention: Duration) -> Finished {
        self.commit_with(outcome, retention, &[], None).await
    }

    /// Commits what was published, too.
    pub(super) async fn commit_publishing(self, outgoing: &[Outgoing]) -> Finished {
        self.commit_with("done", RETENTION, outgoing, None).await
    }

    /// Commits with the mark of a stream.
    pub(super) async fn commit_moving(self, mark: MarkMove<'_>) -> Finished {
        self.commit_with("done", RETENTION, &[], Some(mark)).await
    }

    async fn commit_with(
        self,
        outcome: &str,
        retention: Duration,
        outgoing: &[Outgoing],
        mark: Option<MarkMove<'_>>,
    ) -> Finished {
        let outcome = Outcome::new(outcome.to_owned());
        let done = Completion::new(&self.lease, &outcome, retention)
            .publishing(outgoing)
            .moving(mark);
        let store = &*self.store;
        let complete = Finish::Complete(done);
        let commit = TransactionalStore::<H::Tx>::finish(store, self.transaction, complete);
        Rule::Atomic.answer(commit.await)
    }

    pub(super) async fn roll_back(self, reason: &Release) -> Write {
        roll_back::<H>(&self.store, self.transaction).await;
        Rule::Atomic.answer(self.store.release(&self.lease, reason).await)
    }
}

/// Rolls a transaction back, which every store can.
pub(super) async fn roll_back<H: TransactionalHarness>(
    store: &H::Store,
    transaction: Transaction<H>,
) {
    let finished = TransactionalStore::<H::Tx>::finish(store, transaction, Finish::RollBack).await;
    let finished = Rule::Atomic.answer(finished);
    assert_eq!(finished, Finished::RolledBack, "{}", Rule::Atomic);
}

impl<H: TransactionalHarness> Scene<'_, H> {
    /// Checks how many rows of this name are committed.
    pub(super) async fn has_effects(&self, name: &str, expected: u64, why: &str) {
        let found = self.harness.effects(name).await;
        self.holds(
            found == expected,
            &format!("{why}: expected {expected} effects, found {found}"),
        );
    }

    /// Fails a case whose claim was answered otherwise.
    #[track_caller]
    pub(super) fn did_not_expect(&self, begun: Result<Open<H>, Claim>, instead_of: &str) {
        let answer = match begun {
            Ok(open) => format!("a transaction under {:?}", open.lease),
            Err(claim) => format!("{claim:?}"),
        };
        let why = format!("expected {instead_of}, the store answered {answer}");
        self.holds(false, &why);
    }
}
