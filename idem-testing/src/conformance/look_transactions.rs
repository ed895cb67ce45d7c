//! What is told of a key while its handler's transaction is open, and while that ends.

use super::{LookHarness, Rule, Scene, TransactionalHarness, open::Open, scene::unique};

/// Whoever is told that a key is completed finds its effect.
pub async fn a_completion_is_shown_with_its_commit<H: LookHarness + TransactionalHarness>(
    harness: &H,
) {
    for _ in 0..5 {
        let (scene, effect) = (Scene::new(harness, Rule::LooksAtCommitted), unique());
        let mut open = Open::<H>::of(&scene.claimant()).await;
        open.write_effect(&effect).await;
        scene.is_not_shown_as_done("it is not committed").await;
        let looks = async {
            while scene.outcome().await.is_none() {
                tokio::task::yield_now().await;
            }
            scene.has_effects(&effect, 1, "it is shown as done").await;
        };
        tokio::join!(open.commits(), looks);
    }
}

/// The handler has rolled back itself, and says that it is done.
pub async fn what_is_committed_in_vain_is_not_shown<H: LookHarness + TransactionalHarness>(
    harness: &H,
) {
    let (scene, effect) = (Scene::new(harness, Rule::LooksAtCommitted), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    H::roll_back_early(open.lend()).await;
    let _refused = open.commit("done").await;
    scene.is_not_shown_as_done("nothing was committed").await;
    scene.has_effects(&effect, 0, "it was rolled back").await;
}

impl<H: LookHarness> Scene<'_, H> {
    async fn is_not_shown_as_done(&self, why: &str) {
        let told = self.looked().await;
        let done =
            told.is_some_and(|told| told.outcome.is_some() || told.record.completed_at.is_some());
        self.holds(!done, why);
    }
}
