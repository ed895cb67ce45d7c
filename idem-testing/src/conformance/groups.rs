//! Messages that take turns in one transaction. The store of the harness opens one group at a time.

use std::{
    future::ready,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::time::timeout;

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::{
    handler::Outcome,
    store::{
        Claim, Completion, Finish, Finished, GroupStore, Lease, Open, Release, Store as _,
        StoreError, TransactionalStore, Write,
    },
};

use super::{
    GroupHarness, Harness, LEASE, RETENTION, Rule, Scene, TransactionalHarness,
    claimant::Claimant,
    dropped::poll_once,
    scene::{key, unique},
};

/// The handler whose messages share a transaction, and how many of them.
const HANDLER: &str = "conformance";
const SIZE: usize = 8;
/// A slot that is not given, or an end that is not told, fails a case.
const PATIENCE: Duration = Duration::from_secs(30);

type Slot<H> =
    <<H as Harness>::Store as TransactionalStore<<H as TransactionalHarness>::Tx>>::Transaction;

/// One store, whose messages share their groups.
struct Group<'a, H: GroupHarness> {
    scene: Scene<'a, H>,
    store: Arc<H::Store>,
}

/// A message of a group: what it claimed, and the name of what it writes.
struct Member {
    lease: Lease,
    effect: String,
}

/// How the group ends for one that has left its slot.
struct Left(BoxFuture<'static, Result<Finished, StoreError>>);

impl Left {
    async fn end(self) -> Result<Finished, StoreError> {
        let end = timeout(PATIENCE, self.0).await;
        end.unwrap_or_else(|_| panic!("{}: the group never ends", Rule::Grouped))
    }
}

impl<'a, H: GroupHarness> Group<'a, H> {
    fn new(harness: &'a H, rule: Rule) -> Self {
        let scene = Scene::new(harness, rule);
        let store = scene.store();
        Self { scene, store }
    }

    async fn claim(&self, claimant: &Claimant<H::Store>) -> Claim {
        let claim = GroupStore::<H::Tx>::claim_for_group(&*self.store, &claimant.request).await;
        Rule::Grouped.answer(claim)
    }

    /// A message whose key is new.
    async fn member(&self) -> Member {
        let claimant = self.scene.claimant_of(key(&unique()));
        match self.claim(&claimant).await {
            Claim::Acquired(lease) => Member {
                lease,
                effect: unique(),
            },
            answer => panic!(
                "{}\n  here: a new key is free, not {answer:?}",
                Rule::Grouped
            ),
        }
    }

    /// Waits for a slot in a group of the handler.
    fn given(&self) -> impl Future<Output = Result<Slot<H>, StoreError>> + use<'_, H> {
        let group = Open::Group {
            handler: HANDLER,
            size: SIZE,
        };
        TransactionalStore::<H::Tx>::open(&*self.store, group)
    }

    async fn slot(&self) -> Slot<H> {
        let slot = timeout(PATIENCE, self.given()).await;
        Rule::Grouped.answer(slot.unwrap_or_else(|_| panic!("{}: no slot", Rule::Grouped)))
    }

    /// Two slots one after the other: the second is waited for before the first is left, so that
    /// both are in one group.
    async fn two(&self, first: &Member) -> (Left, Slot<H>) {
        let mut slot = self.slot().await;
        H::write_effect(H::Store::lend(&mut slot), &first.effect).await;
        let mut next = pin!(self.given());
        let early = poll_once(next.as_mut()).await;
        self.scene
            .holds(early.is_none(), "the first one sits there");
        let left = self.leave(slot, first).await;
        let slot = timeout(PATIENCE, next).await;
        let slot = slot.unwrap_or_else(|_| panic!("{}: no second slot", Rule::Grouped));
        (left, Rule::Grouped.answer(slot))
    }

    /// Leaves a slot: it is left when its finish is first polled.
    async fn leave(&self, slot: Slot<H>, member: &Member) -> Left {
        let (store, lease) = (Arc::clone(&self.store), member.lease.clone());
        let mut end = async move {
            let outcome = Outcome::new("done");
            let complete = Finish::Complete(Completion::new(&lease, &outcome, RETENTION));
            TransactionalStore::<H::Tx>::finish(&*store, slot, complete).await
        }
        .boxed();
        match poll_once(Pin::new(&mut end)).await {
            Some(end) => Left(ready(end).boxed()),
            None => Left(end),
        }
    }

    async fn write(&self, slot: &mut Slot<H>, member: &Member) {
        H::write_effect(H::Store::lend(slot), &member.effect).await;
    }

    #[track_caller]
    fn committed(&self, end: &Result<Finished, StoreError>) {
        let committed = matches!(end, Ok(Finished::Committed));
        self.scene.holds(
            committed,
            &format!("nothing speaks against it, but {end:?}"),
        );
    }

    async fn is_done(&self, member: &Member) {
        let claimant = self.scene.claimant_of(member.lease.key.clone());
        let answer = claimant.claim().await;
        answer.is_completed(b"done", "completed in the same commit");
        let why = "its group was committed";
        self.scene.has_effects(&member.effect, 1, why).await;
    }

    async fn is_undone(&self, member: &Member, why: &str) {
        let claimant = self.scene.claimant_of(member.lease.key.clone());
        claimant.claim().await.is_held(why);
        self.scene.has_effects(&member.effect, 0, why).await;
    }
}

/// Effects and completions of all come with one commit, and nothing of any before.
pub async fn the_members_of_a_group_commit_together<H: GroupHarness>(harness: &H) {
    let group = Group::new(harness, Rule::Grouped);
    let (first, second) = (group.member().await, group.member().await);
    let (end, mut slot) = group.two(&first).await;
    group.is_undone(&first, "the group has not ended").await;
    group.write(&mut slot, &second).await;
    let last = group.leave(slot, &second).await.end().await;
    group.committed(&last);
    group.committed(&end.end().await);
    group.is_done(&first).await;
    group.is_done(&second).await;
}

/// A handler that failed leaves nothing, and the one before it is committed.
pub async fn a_slot_that_was_dropped_is_rolled_back_by_itself<H: GroupHarness>(harness: &H) {
    let group = Group::new(harness, Rule::Grouped);
    let (first, second) = (group.member().await, group.member().await);
    let (end, mut slot) = group.two(&first).await;
    group.write(&mut slot, &second).await;
    drop(slot);
    group.committed(&end.end().await);
    group.is_done(&first).await;
    group.is_undone(&second, "its slot was dropped").await;
}

/// One who took its key over works; what the late one wrote is rolled back.
pub async fn a_member_that_was_taken_over_commits_nothing<H: GroupHarness>(harness: &H) {
    let group = Group::new(harness, Rule::Fencing);
    let member = group.member().await;
    group.scene.advance(LEASE).await;
    let successor = group.scene.claimant_of(member.lease.key.clone());
    let successor = successor.claim().await.is_acquired("the lease has run out");
    let mut slot = group.slot().await;
    group.write(&mut slot, &member).await;
    let end = group.leave(slot, &member).await.end().await;
    let committed = matches!(end, Ok(Finished::Committed | Finished::WithoutCompletion));
    group.scene.holds(!committed, "another has taken over");
    group.is_undone(&member, "another has taken over").await;
    let written = successor.complete("done").await;
    written.is_applied("it is the holder");
}

/// Whoever stops waiting for the end of its group is committed with it all the same.
pub async fn the_end_of_a_group_need_not_be_waited_for<H: GroupHarness>(harness: &H) {
    let group = Group::new(harness, Rule::Grouped);
    let (first, second) = (group.member().await, group.member().await);
    let (end, mut slot) = group.two(&first).await;
    drop(end);
    group.write(&mut slot, &second).await;
    let last = group.leave(slot, &second).await.end().await;
    group.committed(&last);
    group.is_done(&first).await;
    group.is_done(&second).await;
}

/// Whoever no longer waits for a slot keeps nobody from it, and no group open.
pub async fn whoever_leaves_the_queue_is_passed_over<H: GroupHarness>(harness: &H) {
    let group = Group::new(harness, Rule::Grouped);
    let (first, second) = (group.member().await, group.member().await);
    let mut slot = group.slot().await;
    group.write(&mut slot, &first).await;
    {
        let mut gone = pin!(group.given());
        let early = poll_once(gone.as_mut()).await;
        group
            .scene
            .holds(early.is_none(), "the first one sits there");
    }
    let end = group.leave(slot, &first).await.end().await;
    group.committed(&end);
    group.is_done(&first).await;
    let mut slot = group.slot().await;
    group.write(&mut slot, &second).await;
    let end = group.leave(slot, &second).await.end().await;
    group.committed(&end);
    group.is_done(&second).await;
}

/// A claim for a group counts, holds, is extended and given back like any other.
pub async fn a_claim_for_a_group_is_a_claim<H: GroupHarness>(harness: &H) {
    let group = Group::new(harness, Rule::AttemptsSurvive);
    for attempt in 1..=3 {
        let Claim::Acquired(lease) = group.claim(&group.scene.claimant()).await else {
            panic!("{}: the key is free", Rule::Grouped);
        };
        let told = (lease.attempt, lease.in_doubt);
        let why = format!("expected attempt {attempt}, not in doubt, the store told {told:?}");
        group.scene.holds(told == (attempt, false), &why);
        group.scene.advance(LEASE / 2).await;
        let extended = TransactionalStore::<H::Tx>::extend_open(&*group.store, &lease, LEASE).await;
        let extended = Rule::Grouped.answer(extended);
        group
            .scene
            .holds(extended == Write::Applied, "it is the holder");
        group.scene.advance(LEASE / 2).await;
        let other = group.scene.claimant().claim().await;
        other.is_held("it was claimed for a group");
        let released = group.store.release(&lease, &Release::failed("no")).await;
        let released = Rule::Grouped.answer(released);
        group
            .scene
            .holds(released == Write::Applied, "it is the holder");
    }
}

/// What is done takes no slot.
pub async fn a_duplicate_is_told_so_instead_of_a_claim_for_a_group<H: GroupHarness>(harness: &H) {
    let group = Group::new(harness, Rule::CompletedWins);
    let holder = group.scene.acquired().await;
    holder.complete("done").await.is_applied("it is the holder");
    let claim = group.claim(&group.scene.claimant()).await;
    let completed =
        matches!(&claim, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"done");
    group
        .scene
        .holds(completed, &format!("it is done, but {claim:?}"));
}
