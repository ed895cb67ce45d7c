//! Whether the store can do what the handlers need of it: asked before the first message.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use idem_core::{
    Executor, Store,
    executor::RunsOn,
    handler::{Backoff, Operation},
    store::Finding,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::subscription::{Fit, Hindrance, Subscription};
use crate::error::RunError;

const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// The code of the finding about a store that does not answer.
const CODE: &str = "constraint";

/// How to ask about this handler.
pub(super) fn of<H, S>(executor: &Executor<S>) -> Fit
where
    H: Operation,
    H::Mode: RunsOn<S>,
    S: Store,
{
    let executor = executor.clone();
    Arc::new(move || {
        let executor = executor.clone();
        async move {
            executor.check::<H>().await?;
            let outbox = H::Mode::outbox(&executor).filter(|_| H::PUBLISHES);
            if let Some(outbox) = outbox {
                outbox.check().await?;
            }
            Ok(())
        }
        .boxed()
    })
}

/// Asks about all handlers. A store that is away is waited for, until the worker is to stop.
///
/// # Errors
/// If the store cannot do what one of them needs.
pub(super) async fn check(
    subscriptions: &[Subscription],
    draining: &CancellationToken,
) -> Result<(), RunError> {
    let mut findings = Vec::new();
    for subscription in subscriptions {
        let finding = tokio::select! {
            finding = ask_until_answered(subscription) => finding,
            () = draining.cancelled() => return Ok(()),
        };
        findings.extend(finding);
    }
    if findings.is_empty() {
        return Ok(());
    }
    for finding in &findings {
        finding.log("worker");
    }
    Err(RunError::Unfit { findings })
}

/// What is wrong, also if that is that the store does not tell.
pub(super) async fn look(subscriptions: &[Subscription]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for subscription in subscriptions {
        match (subscription.fit)().await {
            Ok(()) => {}
            Err(Hindrance::Silent(error)) => {
                let text = format!("{error}: look again when it answers");
                findings.push(about(subscription, Finding::note(CODE, text)));
            }
            Err(Hindrance::Unfit(code, error)) => {
                findings.push(about(subscription, Finding::error(code, error)));
            }
        }
    }
    findings
}

async fn ask_until_answered(subscription: &Subscription) -> Option<Finding> {
    let mut tries = 0;
    loop {
        match (subscription.fit)().await {
            Ok(()) => return None,
            Err(Hindrance::Silent(error)) => {
                let queue = subscription.queue.name();
                tracing::warn!(
                    queue,
                    error,
                    "nothing is consumed before the store has told"
                );
            }
            Err(Hindrance::Unfit(code, error)) => {
                let finding = Finding::error(code, error);
                return Some(about(subscription, finding));
            }
        }
        tries += 1;
        sleep(AGAIN.wait(tries)).await;
    }
}

fn about(subscription: &Subscription, finding: Finding) -> Finding {
    finding.about(subscription.queue.name())
}
