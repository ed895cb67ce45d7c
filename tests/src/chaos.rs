//! Workers under load and a seeded schedule of faults, and what became of the orders.
//!
//! | module | holds |
//! |---|---|
//! | `options`, `plan` | what is asked for, and the run that is decided by it (pure) |
//! | `fault`, `schedule` | what goes wrong when, drawn from the seed (pure) |
//! | `orders` | what is published, drawn from the seed |
//! | `scene` | the workers, the orders and the faults, all at once |
//! | `site`, `store` | servers and links of one run's own |
//! | `shipping` | where events go, and who consumes them |
//! | `post` | a worker, one process after the other |
//! | `inject` | what is done to links, broker and store |
//! | `publishing`, `settling` | the beginning and the end of every order |
//! | `inspection` | ledger and queues in the end |
//! | `tally`, `excuse` | what was lost, doubled, stuck (pure) |
//! | `report`, `history` | the verdict, in words |

use std::{fmt, path::Path, time::Duration};

use crate::process::Settings;

mod chronicle;
mod excuse;
mod fault;
mod history;
mod inject;
mod inspection;
mod life;
mod options;
mod orders;
mod plan;
mod post;
mod publishing;
mod report;
mod scene;
mod schedule;
mod settling;
mod shipping;
mod site;
mod store;
mod tally;

pub use fault::Fault;
pub use options::Options;
pub use plan::{Mode, Plan, Queues, StoreKind};
pub use report::Report;
pub use schedule::{Injection, Place, Schedule};

use chronicle::Chronicle;
use orders::Orders;
use publishing::Publishing;
use scene::Scene;
use site::Site;

/// How long it may take until all is published after the last fault is healed, and then until all is
/// settled.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A plan, and the workers that it is carried out with.
pub struct Chaos<'a> {
    plan: &'a Plan,
    worker: &'a Path,
    change: Box<dyn FnOnce(&mut Settings)>,
    patience: Duration,
}

impl<'a> Chaos<'a> {
    /// With workers of this program.
    pub fn new(plan: &'a Plan, worker: &'a Path) -> Self {
        Self {
            plan,
            worker,
            change: Box::new(|_| {}),
            patience: PATIENCE,
        }
    }

    /// With this change of the workers' settings.
    pub fn with(mut self, change: impl FnOnce(&mut Settings) + 'static) -> Self {
        self.change = Box::new(change);
        self
    }

    /// With another patience.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Carries the plan out.
    ///
    /// # Panics
    /// If a server cannot be started, or a fault cannot be injected.
    pub async fn run(self) -> Report {
        let plan = self.plan;
        let schedule = plan.schedule();
        let site = Site::open(plan, &schedule).await;
        let settings = site.settings(plan).with(self.change);
        site.declare(&settings).await;
        let posts = site.man(plan, self.worker, &settings).await;
        let scene = Scene {
            orders: Orders::of(plan),
            publishing: Publishing::default(),
            chronicle: Chronicle::begin(),
            schedule,
            site,
        };
        let length = Duration::from_secs(plan.seconds);
        let (findings, lives) = scene.play(posts, length, self.patience).await;
        let evidence = inspection::inspect(plan, &scene, &lives).await;
        Report::new(plan, &scene.orders, &evidence, lives, findings)
    }
}

impl fmt::Debug for Chaos<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chaos").field(self.plan).finish()
    }
}
