//! The task that tells the store, once it is back, what was done without it.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::{
    local::Turn,
    report::{Report, Sent},
};
use crate::{Store, executor::until_known::PATIENCE};

/// How many reports are sent at once to a store that answers.
const WIDTH: usize = 64;

/// Reports until nothing is left to report.
pub(super) async fn run<S: Store>(store: Arc<S>, mut turn: Turn) {
    let (mut tries, mut width) = (0, 1);
    while let Some(reports) = turn.next(width).await {
        let sent = join_all(reports.into_iter().map(|report| send(&*store, report))).await;
        // One at a time knocks at a store that is away.
        let away = sent.iter().any(|(_, sent)| *sent == Sent::Away);
        width = if away { 1 } else { WIDTH };
        let progress = sent.iter().any(|(_, sent)| *sent == Sent::Told);
        turn.note(sent);
        if away || !progress {
            tries += 1;
            sleep(PATIENCE.wait(tries)).await;
        } else {
            tries = 0;
        }
    }
}

async fn send<S: Store>(store: &S, mut report: Report) -> (Report, Sent) {
    let sent = report.send(store).await;
    (report, sent)
}
