//! Workers under load and a seeded schedule of faults, and what became of the orders.
//!
//! | module | holds |
//! |---|---|
//! | `orders` | what is published, drawn from the seed |
//! | `site` | servers and links of one run's own |
//! | `post` | a worker, one process after the other |
//! | `inject` | what is done to links, broker and store |
//! | `publishing`, `settling` | the beginning and the end of every order |
//! | `inspection` | ledger and queues in the end |
//! | `tally`, `excuse` | what was lost, doubled, stuck (pure) |
//! | `report`, `history` | the verdict, in words |

use std::{path::Path, time::Duration};

use futures_util::future::{join, join_all};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use xtask::chaos::{Place, Plan};

use crate::process::Settings;

mod chronicle;
mod excuse;
mod history;
mod inject;
mod inspection;
mod life;
mod orders;
mod post;
mod publishing;
mod report;
mod settling;
mod site;
mod tally;

pub use report::Report;

use chronicle::Chronicle;
use orders::Orders;
use post::Post;
use site::Site;

/// How long it may take until all is published and settled, after the last fault was healed.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Carries a plan out, with workers of this program whose settings may be changed.
///
/// # Panics
/// If a server cannot be started, or a fault cannot be injected.
pub async fn run(plan: &Plan, worker: &Path, change: impl FnOnce(&mut Settings)) -> Report {
    let site = Site::open(plan).await;
    let settings = site.settings(plan).with(change);
    site.declare(&settings).await;
    let orders = Orders::of(plan);
    let chronicle = Chronicle::begin();
    let schedule = plan.schedule();

    // Closed when every worker has been through all that is planned for it.
    let (healing, mut healed) = mpsc::channel::<()>(1);
    let (stop, stopped) = watch::channel(false);
    let posts = (1..=plan.workers).map(|number| {
        let settings = settings.with(|settings| settings.amqp_url = site.url_of_link(number));
        let injections = schedule.at(Place::Worker(number));
        let post = Post::man(number, worker, &settings, &chronicle);
        post.serve(injections, healing.clone(), stopped.clone())
    });
    let posts = join_all(posts.collect::<Vec<_>>());
    drop(healing);
    let story = async {
        let length = Duration::from_secs(plan.seconds);
        let publishing = publishing::publish(&orders, &site, length, &chronicle);
        let faults = async {
            inject::all(&schedule, &site, &chronicle).await;
            while healed.recv().await.is_some() {}
            chronicle.tell("the last fault is over");
        };
        let ((), published) = join(faults, timeout(length + PATIENCE, publishing)).await;
        let settled = settling::until_settled(&site, &orders).await;
        chronicle.tell("the workers are told to stop");
        stop.send_replace(true);
        let unpublished = published
            .err()
            .map(|_| "not all orders could be published".into());
        [unpublished, settled.err()]
    };
    let (findings, lives) = join(story, posts).await;
    let lives: Vec<_> = lives.into_iter().flatten().collect();
    let evidence = inspection::inspect(plan, &site, &lives).await;
    let findings = findings.into_iter().flatten().collect();
    Report::new(plan, &orders, &evidence, lives, findings)
}
