//! The workers, the orders and the faults, all at once.

use std::{pin::pin, time::Duration};

use futures_util::future::{join, join_all};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    Place, Schedule, chronicle::Chronicle, inject, life::Life, orders::Orders, post::Post,
    publishing::Publishing, settling, site::Site,
};

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
        posts: Vec<Post>,
        length: Duration,
        patience: Duration,
    ) -> (Vec<String>, Vec<Life>) {
        // Closed when every worker has been through all that is planned for it.
        let (healing, healed) = mpsc::channel(1);
        let (stop, stopped) = watch::channel(false);
        let posts = posts.into_iter().map(|post| {
            let injections = self.schedule.at(Place::Worker(post.number()));
            post.serve(
                injections,
                &self.chronicle,
                healing.clone(),
                stopped.clone(),
            )
        });
        let posts = join_all(posts.collect::<Vec<_>>());
        drop(healing);
        let story = async {
            let findings = self.until_settled(length, healed, patience).await;
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
        length: Duration,
        mut healed: mpsc::Receiver<()>,
        patience: Duration,
    ) -> Vec<String> {
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
