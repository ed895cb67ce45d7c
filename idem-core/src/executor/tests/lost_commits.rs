//! Atomic handlers whose connection breaks, at the commit or before.

use std::future::pending;

use tokio::time::Instant;

use super::{
    charge::{self, Act},
    doubles::{Blank, Transaction, TransactionalDouble, Transactions},
    *,
};
use crate::{
    handler::{Atomic, Outcome},
    message::Envelope,
    store::{Completion, Finish, Finished, StoreError},
};

/// What became of a commit that was never answered.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Applied,
    NotApplied,
    /// Not applied, and another worker did the work before anybody asked.
    Overtaken,
    /// The connection broke while the handler ran.
    NeverSent,
    /// The link fell silent while the handler waits for an answer.
    Silent,
    /// An earlier run's commit, which nobody waits for any more, is carried out after this run has
    /// seen its writes and rejected the message.
    Late,
}

/// How long a transaction may be open: many leases.
const LIMIT: Duration = Duration::from_mins(10);

type Lender = TransactionalDouble<Faulty, Fate>;

async fn take_over_and_complete(store: &impl Store) {
    sleep(LEASE).await;
    let lease = acquire(store).await;
    let outcome = Outcome::new("the successor's");
    let write = store.complete(&lease, &outcome, LEASE).await;
    assert_eq!(write.unwrap(), Write::Applied);
}

impl Transactions for Fate {
    fn time_limit(&self) -> Option<Duration> {
        Some(LIMIT)
    }

    fn are_alive(&self) -> bool {
        !matches!(self, Self::NeverSent | Self::Silent)
    }

    async fn finish<S: Store>(
        &self,
        store: &S,
        transaction: Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let Finish::Complete(Completion {
            lease,
            outcome,
            retention,
            ..
        }) = finish
        else {
            if let (Self::Late, Some(lease)) = (self, &transaction.lease) {
                let write = store.complete(lease, &Outcome::new("1"), LEASE).await;
                assert_eq!(write.unwrap(), Write::Applied);
            }
            return Ok(Finished::RolledBack);
        };
        match self {
            Self::Applied => {
                let write = store.complete(lease, outcome, retention).await?;
                assert_eq!(write, Write::Applied);
            }
            Self::NotApplied | Self::NeverSent | Self::Silent | Self::Late => {}
            Self::Overtaken => take_over_and_complete(store).await,
        }
        Err(StoreError::unavailable("the connection was lost"))
    }
}

/// Succeeds unless its connection is broken.
impl Act for Fate {
    async fn act(&self, _: u32, attempt: Attempt) -> Result<u32, Failed> {
        match self {
            Self::NeverSent => {
                Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
            }
            Self::Silent => pending().await,
            Self::Late => Err(Failed::rejected("somebody has paid already")),
            _ => Ok(attempt.number()),
        }
    }
}

type Charge = charge::Charge<Atomic<Blank>>;

async fn commit(fate: Fate) -> (Execution<u32, Failed>, Lender) {
    let store = Faulty::default();
    let lender = lender(store, fate);
    (handle(&lender, &mut message()).await, lender)
}

fn message() -> Prepared<Charge> {
    // One attempt: an outage that counted would use it up.
    charge::message("7", &attempts(1))
}

async fn handle(lender: &Lender, message: &mut Prepared<Charge>) -> Execution<u32, Failed> {
    let executor = Executor::new(lender.clone());
    executor.handle(message, &lender.transactions).await
}

fn lender(store: Faulty, fate: Fate) -> Lender {
    TransactionalDouble {
        store,
        transactions: fate,
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_applied_but_not_answered_is_an_execution() {
    let (ended, store) = commit(Fate::Applied).await;
    assert_output(&ended, 1, &1);
    let known = claim(&store).await;
    assert!(matches!(known, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"1"));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_no_attempt() {
    for fate in [Fate::NeverSent, Fate::NotApplied] {
        let store = Faulty::default();
        let mut message = message();
        for fate in [fate, fate, Fate::Applied] {
            let store = store.clone();
            let ended = handle(&lender(store, fate), &mut message).await;
            match fate {
                Fate::Applied => {
                    assert_ended(&ended, "executed 1");
                }
                _ => assert_ended(&ended, "store-unavailable"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_connection_breaks_each_time_has_failed() {
    for fate in [Fate::NeverSent, Fate::NotApplied] {
        let store = Faulty::default();
        let lender = lender(store, fate);
        let mut message = message();
        for _ in 0..4 {
            let ended = handle(&lender, &mut message).await;
            assert_ended(&ended, "store-unavailable");
        }
        let ended = handle(&lender, &mut message).await;
        assert_ended(&ended, "exhausted 1");
        assert!(matches!(claim(&lender).await, Claim::Acquired(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_waits_on_a_silent_link_fails_when_its_time_is_up() {
    let began = Instant::now();
    let (ended, store) = commit(Fate::Silent).await;
    assert!(
        matches!(&ended, Execution::Exhausted { cause, attempt: 1 }
            if cause.to_string().contains("still open after 600s")),
        "{ended:?}"
    );
    assert!((LIMIT..LIMIT + LEASE).contains(&began.elapsed()));
    let known = claim(&store).await;
    assert!(matches!(known, Claim::Acquired(_)), "{known:?}");
}

#[tokio::test(start_paused = true)]
async fn a_completion_by_the_successor_is_not_taken_for_ones_own() {
    let (ended, store) = commit(Fate::Overtaken).await;
    assert_ended(&ended, "lease-lost 1");
    let known = claim(&store).await;
    assert!(
        matches!(known, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"the successor's")
    );
}

/// Copies are told what was committed, so this requester must not be told otherwise.
#[tokio::test(start_paused = true)]
async fn a_rejection_after_an_earlier_commit_that_came_late_is_told_to_nobody() {
    let (store, fate) = (Faulty::default(), Fate::Late);
    let lender = lender(store, fate);
    let request = Envelope::builder("7").expects_reply(true).build();
    let mut message = Prepared::new(request, &Policy::DEFAULT).unwrap();
    let ended = handle(&lender, &mut message).await;
    assert_ended(&ended, "lease-lost");
    let known = claim(&lender).await;
    assert!(matches!(known, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"1"));
}
