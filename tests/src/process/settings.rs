//! What a worker's process is to do.

use std::{path::PathBuf, time::Duration};

use idem_amqp::{
    Ladder, Policy, Queue, QueueType,
    handler::{Backoff, InDoubt},
};
use serde::{Deserialize, Serialize};

use crate::{
    flawed::Flaw,
    interfered::{Call, Fate},
    ledger::Ledger,
    queue_type,
    store_at::StoreAt,
};

/// What a worker's process is to do.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The broker.
    pub amqp_url: String,
    /// The queue, declared by the worker.
    pub queue: String,
    /// Whether that is a classic queue.
    pub classic: bool,
    /// The store.
    pub store: StoreAt,
    /// The SQLite file to which leased handlers write.
    pub ledger: PathBuf,
    /// The worker's name in the ledger.
    pub name: String,
    /// How it charges.
    pub mode: Mode,
    /// The lease in milliseconds.
    pub lease_ms: u64,
    /// The wait before the second attempt, and the longest one, in milliseconds.
    pub backoff_ms: (u64, u64),
    /// The rungs of the retry ladder in milliseconds, if not the default ones.
    pub rungs_ms: Option<Vec<u64>>,
    /// How many attempts there are.
    pub max_attempts: u32,
    /// Whether messages in doubt are quarantined.
    pub quarantine: bool,
    /// How many messages are handled at once; one of them if 1, for none is held then.
    pub prefetch: u16,
    /// How long the handler takes, in milliseconds, before it charges.
    pub work_ms: u64,
    /// How long running handlers may take after SIGTERM, in milliseconds.
    pub grace_ms: u64,
    /// When the process kills itself.
    pub crash: Option<Crash>,
    /// What handlers wait for.
    pub gate: Option<Gate>,
    /// What is wrong with the worker, to see that it is found out.
    pub flaw: Option<Flaw>,
    /// Whether clients may open sessions.
    pub sessions: bool,
    /// Whether the queue is a stream.
    pub stream: bool,
    /// By what the orders are told apart.
    pub keys: Keys,
    /// The queue to which handlers publish, by their outbox, that an order is charged.
    pub events: Option<String>,
}

/// By what orders are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keys {
    /// Their ids.
    Ids,
    /// The numbers that their publisher gave them.
    Numbers,
    /// Their places in a stream, whose mark alone says what is done.
    Places,
}

/// How charges are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// In the transaction that records them.
    Atomic,
    /// In one that several orders share.
    Grouped,
    /// In a transaction that leaves a row which records them.
    Entity,
    /// Several orders by one call of the handler, in one transaction.
    Batched,
    /// On a connection of the handler's own.
    Leased,
    /// The same, several orders by one call of the handler.
    LeasedBatched,
}

/// When a process kills itself, as `kill -9` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Crash {
    /// Before the n-th claim is recorded.
    BeforeClaim(u64),
    /// After the n-th claim was recorded, before its handler runs.
    AfterClaim(u64),
    /// After the n-th handler has returned, before its completion is recorded.
    BeforeCompletion(u64),
    /// After the n-th completion was recorded, before the ack or the response.
    AfterCompletion(u64),
    /// In every handler, after its charge.
    InHandler,
}

impl Crash {
    /// What becomes of a call of the store, by its number among those of its kind.
    pub fn fate(self, call: Call, number: u64) -> Fate {
        let (nth, of, fate) = match self {
            Self::BeforeClaim(nth) => (nth, Call::Claim, Fate::DieBefore),
            Self::AfterClaim(nth) => (nth, Call::Claim, Fate::DieAfter),
            Self::BeforeCompletion(nth) => (nth, Call::Complete, Fate::DieBefore),
            Self::AfterCompletion(nth) => (nth, Call::Complete, Fate::DieAfter),
            Self::InHandler => return Fate::Pass,
        };
        if (nth, of) == (number, call) {
            fate
        } else {
            Fate::Pass
        }
    }
}

/// A file that handlers wait for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gate {
    /// The file.
    pub file: PathBuf,
    /// Whether the wait blocks the thread, so that the handler does not notice that it has lost
    /// its lease.
    pub blocking: bool,
}

impl Settings {
    /// An atomic worker on a queue of the type under test, with a lease of one second and three attempts.
    pub fn new(amqp_url: &str, queue: &str, ledger: &Ledger) -> Self {
        Self {
            amqp_url: amqp_url.into(),
            queue: queue.into(),
            classic: queue_type::under_test() == QueueType::Classic,
            store: ledger.store().clone(),
            ledger: ledger.path(),
            name: "worker".into(),
            mode: Mode::Atomic,
            lease_ms: 1000,
            backoff_ms: (20, 40),
            rungs_ms: None,
            max_attempts: 3,
            quarantine: false,
            prefetch: 8,
            work_ms: 0,
            grace_ms: 15_000,
            crash: None,
            gate: None,
            flaw: None,
            sessions: false,
            stream: false,
            keys: Keys::Ids,
            events: None,
        }
    }

    /// The queue, as the worker declares and consumes it.
    ///
    /// # Panics
    /// If policy or ladder cannot be.
    pub fn queue(&self) -> Queue {
        let kind = if self.classic {
            QueueType::Classic
        } else {
            QueueType::Quorum
        };
        let queue = if self.stream {
            Queue::stream(&self.queue).takeover_after(Duration::from_secs(2))
        } else {
            Queue::of_type(&self.queue, kind)
        };
        let mut queue = queue.prefetch(self.prefetch).policy(self.policy());
        if let Some(rungs) = &self.rungs_ms {
            let rungs = rungs.iter().copied().map(Duration::from_millis);
            queue = queue.ladder(Ladder::new(rungs).expect("tests have ladders that hold"));
        }
        queue
    }

    fn policy(&self) -> Policy {
        let [first, longest] = [self.backoff_ms.0, self.backoff_ms.1].map(Duration::from_millis);
        let in_doubt = if self.quarantine {
            InDoubt::Quarantine
        } else {
            InDoubt::Retry
        };
        let policy = Policy::builder()
            .lease(Duration::from_millis(self.lease_ms))
            .max_attempts(self.max_attempts)
            .backoff(Backoff::new(first, longest))
            .in_doubt(in_doubt);
        policy.build().expect("tests have policies that hold")
    }

    /// The same with this change.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }
}
