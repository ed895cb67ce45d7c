//! The workers, the orders and the faults, all at once.

use std::{path::Path, pin::pin, time::Duration};

use futures_util::future::{join, join_all};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use xtask::chaos::{Place, Plan, Schedule};

use super::{
    chronicle::Chronicle, inject, life::Life, orders::Orders, post::Post, publishing::Publishing,
    settling, site::Site,
};
use crate::process::Settings;

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) orders: Orders,
    pub(super) publishing: Publishing,
    pub(super) chronicle: Chronicle,
    pub(super) schedule: Schedule,
    pub(super) site: Site,
}

impl Scene {
    /// Ends when all is settled, or patience is at its end, and the workers have stopped. Says what
    /// did not come to its end.
    pub(super) async fn play(
        &self,
        plan: &Plan,
        worker: &Path,
        settings: &Settings,
        patience: Duration,
    ) -> (Vec<String>, Vec<Life>) {
        // Closed when every worker has been through all that is planned for it.
        let (healing, healed) = mpsc::channel(1);
        let (stop, stopped) = watch::channel(false);
        let posts = (1..=plan.workers).map(|number| {
            let settings = self.site.settings_of(number, settings);
            let post = Post::man(number, worker, &settings, &self.chronicle);
            let injections = self.schedule.at(Place::Worker(number));
            post.serve(injections, healing.clone(), stopped.clone())
        });
        let posts = join_all(posts.collect::<Vec<_>>());
        drop(healing);
        let story = async {
            let findings = self.until_settled(plan, healed, patience).await;
            self.chronicle.tell("the workers are told to stop");
            stop.send_replace(true);
            findings
        };
        let (findings, lives) = join(story, posts).await;
        (findings, lives.into_iter().flatten().collect())
    }

    /// Publishes and injects, and waits for the end of both and of all that follows.
    async fn until_settled(
        &self,
        plan: &Plan,
        mut healed: mpsc::Receiver<()>,
        patience: Duration,
    ) -> Vec<String> {
        let length = Duration::from_secs(plan.seconds);
        let publishing = self
            .publishing
            .publish(&self.orders, &self.site, length, &self.chronicle);
        let faults = async {
            inject::all(&self.schedule, &self.site, &self.chronicle).await;
            while healed.recv().await.is_some() {}
            self.chronicle.tell("the last fault is healed");
        };
        let (mut publishing, mut faults) = (pin!(publishing), pin!(faults));
        let published = tokio::select! {
            () = &mut publishing => {
                faults.await;
                true
            }
            () = &mut faults => timeout(patience, publishing).await.is_ok(),
        };
        let settled = settling::until_settled(&self.site, &self.orders, patience).await;
        let unpublished =
            (!published).then(|| format!("not all orders could be published within {patience:?}"));
        unpublished.into_iter().chain(settled.err()).collect()
    }
}
