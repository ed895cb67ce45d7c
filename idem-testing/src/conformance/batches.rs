//! Several messages in one transaction, completed by one finish.

use std::sync::Arc;

use idem_core::{
    handler::Outcome,
    store::{
        BatchStore, Claim, Completion, Finish, Finished, Lease, Open, Release, Store as _,
        TransactionalStore, Write,
    },
};

use super::{
    BatchHarness, LEASE, RETENTION, Rule, Scene,
    claimant::Claimant,
    scene::{key, unique},
};

/// One store, and the messages of a batch.
struct Batch<'a, H: BatchHarness> {
    scene: Scene<'a, H>,
    store: Arc<H::Store>,
    leases: Vec<Lease>,
    /// The name of what the handler writes.
    effect: String,
}

impl<'a, H: BatchHarness> Batch<'a, H> {
    /// So many messages, whose keys are new.
    async fn of(harness: &'a H, messages: usize, rule: Rule) -> Self {
        let scene = Scene::new(harness, rule);
        let store = scene.store();
        let mut batch = Self {
            scene,
            store,
            leases: Vec::new(),
            effect: unique(),
        };
        for _ in 0..messages {
            let claimant = batch.scene.claimant_of(key(&unique()));
            match batch.claim(&claimant).await {
                Claim::Acquired(lease) => batch.leases.push(lease),
                answer => panic!(
                    "{}\n  here: a new key is free, not {answer:?}",
                    Rule::Batched
                ),
            }
        }
        batch
    }

    async fn claim(&self, claimant: &Claimant<H::Store>) -> Claim {
        let claim = BatchStore::<H::Tx>::claim_for_batch(&*self.store, &claimant.request).await;
        Rule::Batched.answer(claim)
    }

    /// Writes once, and finishes as it is told.
    async fn write_and_finish(&self, finish: Finish<'_>) -> Finished {
        let opened = TransactionalStore::<H::Tx>::open(&*self.store, Open::Batch).await;
        let mut transaction = Rule::Batched.answer(opened);
        H::write_effect(H::Store::lend(&mut transaction), &self.effect).await;
        let finished = TransactionalStore::<H::Tx>::finish(&*self.store, transaction, finish).await;
        Rule::Batched.answer(finished)
    }

    async fn complete_all(&self) -> Finished {
        let outcome = Outcome::new("done");
        let completions: Vec<_> = self
            .leases
            .iter()
            .map(|lease| Completion::new(lease, &outcome, RETENTION))
            .collect();
        self.write_and_finish(Finish::CompleteAll(&completions))
            .await
    }

    /// Each of its keys is held, and nothing is written.
    async fn is_undone(&self, why: &str) {
        for lease in &self.leases {
            let claimant = self.scene.claimant_of(lease.key.clone());
            claimant.claim().await.is_held(why);
        }
        self.scene.has_effects(&self.effect, 0, why).await;
    }
}

/// One commit for all of them.
pub async fn the_keys_of_a_batch_are_completed_with_what_was_written<H: BatchHarness>(harness: &H) {
    let batch = Batch::of(harness, 3, Rule::Batched).await;
    let finished = batch.complete_all().await;
    let why = format!("nothing speaks against it, but {finished:?}");
    batch.scene.holds(finished == Finished::Committed, &why);
    for lease in &batch.leases {
        let claimant = batch.scene.claimant_of(lease.key.clone());
        let answer = claimant.claim().await;
        answer.is_completed(b"done", "completed in the same commit");
    }
    let why = "it was committed";
    batch.scene.has_effects(&batch.effect, 1, why).await;
}

/// One who took a key over works, and the others of the batch are not done without it.
pub async fn a_batch_with_one_that_was_taken_over_commits_nothing<H: BatchHarness>(harness: &H) {
    let batch = Batch::of(harness, 3, Rule::Batched).await;
    batch.scene.advance(LEASE).await;
    for lease in [&batch.leases[0], &batch.leases[2]] {
        let extended = TransactionalStore::<H::Tx>::extend_open(&*batch.store, lease, LEASE).await;
        let extended = Rule::Batched.answer(extended);
        batch
            .scene
            .holds(extended == Write::Applied, "nobody has taken it over");
    }
    let successor = batch.scene.claimant_of(batch.leases[1].key.clone());
    let successor = successor.claim().await.is_acquired("the lease has run out");
    let finished = batch.complete_all().await;
    let why = format!("another has taken over, but {finished:?}");
    batch.scene.holds(finished == Finished::Fenced, &why);
    batch
        .is_undone("another has taken one of the keys over")
        .await;
    let written = successor.complete("done").await;
    written.is_applied("it is the holder");
}

/// What a call that failed has written is gone, and it is made again under the same claims.
pub async fn a_batch_that_is_rolled_back_leaves_its_claims<H: BatchHarness>(harness: &H) {
    let batch = Batch::of(harness, 2, Rule::Batched).await;
    let finished = batch.write_and_finish(Finish::RollBack).await;
    let why = format!("nothing was to be committed, but {finished:?}");
    batch.scene.holds(finished == Finished::RolledBack, &why);
    batch.is_undone("it was rolled back").await;
    let finished = batch.complete_all().await;
    let why = format!("its leases are the current ones, but {finished:?}");
    batch.scene.holds(finished == Finished::Committed, &why);
    let why = "the second one was committed";
    batch.scene.has_effects(&batch.effect, 1, why).await;
}

/// A claim for a batch counts, holds, is extended and given back like any other.
pub async fn a_claim_for_a_batch_is_a_claim<H: BatchHarness>(harness: &H) {
    let batch = Batch::of(harness, 0, Rule::AttemptsSurvive).await;
    for attempt in 1..=3 {
        let Claim::Acquired(lease) = batch.claim(&batch.scene.claimant()).await else {
            panic!("{}: the key is free", Rule::Batched);
        };
        let told = (lease.attempt, lease.in_doubt);
        let why = format!("expected attempt {attempt}, not in doubt, the store told {told:?}");
        batch.scene.holds(told == (attempt, false), &why);
        batch.scene.advance(LEASE / 2).await;
        let extended = TransactionalStore::<H::Tx>::extend_open(&*batch.store, &lease, LEASE).await;
        let extended = Rule::Batched.answer(extended);
        batch
            .scene
            .holds(extended == Write::Applied, "it is the holder");
        batch.scene.advance(LEASE / 2).await;
        let other = batch.scene.claimant().claim().await;
        other.is_held("it was claimed for a batch");
        let released = batch.store.release(&lease, &Release::failed("no")).await;
        let released = Rule::Batched.answer(released);
        batch
            .scene
            .holds(released == Write::Applied, "it is the holder");
    }
}

/// What is done is in no batch.
pub async fn a_duplicate_is_told_so_instead_of_a_claim_for_a_batch<H: BatchHarness>(harness: &H) {
    let batch = Batch::of(harness, 0, Rule::CompletedWins).await;
    let holder = batch.scene.acquired().await;
    holder.complete("done").await.is_applied("it is the holder");
    let claim = batch.claim(&batch.scene.claimant()).await;
    let completed =
        matches!(&claim, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"done");
    batch
        .scene
        .holds(completed, &format!("it is done, but {claim:?}"));
}
