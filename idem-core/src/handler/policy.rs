//! How a handler's messages are claimed, retried and remembered.

use std::time::Duration;

use crate::handler::Backoff;

mod copies;
mod enforcement;
mod given_up;
mod keyless;
mod late;

pub use copies::{OnConflict, OnDuplicate};
pub use enforcement::Enforcement;
pub use given_up::GivenUp;
pub use keyless::Keyless;
pub use late::Late;

/// What to do with a message whose earlier attempt ended without a word (leased handlers only:
/// an atomic handler's attempt was rolled back, there is nothing to doubt).
///
/// ```
/// use idem_core::{Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Transfer { id: String }
///
/// #[idempotent(key = "id", scope = "bank.transfer", in_doubt = "quarantine")]
/// async fn transfer(order: Transfer) -> Result<(), Failed> {
///     println!("{}", order.id); // by a bank that nobody can ask
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InDoubt {
    /// Run it again. Right for effects that may happen twice.
    Retry,
    /// Dead-letter it with reason `in-doubt`, for a person to look at.
    Quarantine,
}

/// What to do with a message while the store cannot be reached.
///
/// ```
/// use idem_core::{Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Alarm { id: String }
///
/// #[idempotent(key = "id", scope = "alarms.ring", store_outage = "fail_open")]
/// async fn ring(alarm: Alarm) -> Result<(), Failed> {
///     println!("{}", alarm.id); // rather twice than late
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreOutage {
    /// Run nothing: messages wait, unacknowledged, until the store is back.
    FailClosed,
    /// Run unprotected (leased handlers only; an atomic one cannot run without its store). Right
    /// for effects that may happen twice, and must not wait.
    ///
    /// What this process does meanwhile is remembered in its own memory, so that it repeats
    /// nothing of it. The store is told when it is back: of what still runs, so that no other
    /// process begins it, and of what has ended, unless another worker holds the key (then when
    /// that has ended), or its record cannot be read, or the store has no room. What another
    /// process does, did, or has recorded before, cannot be known: its effect may happen twice.
    /// See [`Execution::Unprotected`](crate::Execution::Unprotected).
    ///
    /// Work that began under the store's protection neither rests nor waits for it: it goes on
    /// past its lease, and its end is remembered in the same way.
    ///
    /// Not together with [`InDoubt::Quarantine`], which is for effects that must not happen twice.
    FailOpen,
}

/// How a handler's messages are claimed, retried and remembered. Checked when built.
///
/// | | default | |
/// |---|---|---|
/// | lease | 30 s | how long a worker that went silent keeps a key |
/// | retention | 72 h | how long a key is remembered after its last write |
/// | timeout | none | how long one attempt may run |
/// | maximum attempts | 10 | then the message is dead-lettered |
/// | backoff | 1 s, doubling to 5 min | between attempts |
/// | in doubt | retry | after an attempt that ended without a word |
/// | store outage | fail closed | nothing runs unprotected |
/// | largest outcome | 64 KiB | of an output, as JSON, that is remembered |
/// | enforcement | enforce | what is not to run does not |
/// | on rejected, on exhausted | dead-letter | what becomes of a message that is given up |
/// | keyless | dead-letter | what becomes of a message without a usable key |
/// | on duplicate | ack | what becomes of a copy of what is done |
/// | on conflict | wait | what becomes of a copy of what is being handled |
/// | late | run | what becomes of a message that is older than the retention, and of whose key nothing is known |
/// | time header | none | which header tells a message's own time; else AMQP's `timestamp` does |
///
/// ```
/// use std::time::Duration;
/// use idem_core::Policy;
///
/// assert_eq!(Policy::DEFAULT.lease(), Duration::from_secs(30));
///
/// // For one queue, `Queue::policy` takes it; for a handler, the arguments of `#[idempotent]` do.
/// const QUICK: Policy = Policy::builder().lease(Duration::from_secs(5)).max_attempts(3).build_const();
/// assert_eq!(QUICK.retention(), Policy::DEFAULT.retention());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    lease: Duration,
    retention: Duration,
    timeout: Option<Duration>,
    max_attempts: u32,
    backoff: Backoff,
    in_doubt: InDoubt,
    store_outage: StoreOutage,
    max_outcome: usize,
    enforcement: Enforcement,
    on_rejected: GivenUp,
    on_exhausted: GivenUp,
    on_duplicate: OnDuplicate,
    on_conflict: OnConflict,
    keyless: Keyless,
    late: Late,
    time_header: Option<&'static str>,
}

impl Policy {
    /// The defaults of the table above.
    pub const DEFAULT: Self = Self {
        lease: Duration::from_secs(30),
        retention: Duration::from_hours(72),
        timeout: None,
        max_attempts: 10,
        backoff: Backoff::new(Duration::from_secs(1), Duration::from_mins(5)),
        in_doubt: InDoubt::Retry,
        store_outage: StoreOutage::FailClosed,
        max_outcome: 64 * 1024,
        enforcement: Enforcement::Enforce,
        on_rejected: GivenUp::DeadLetter,
        on_exhausted: GivenUp::DeadLetter,
        on_duplicate: OnDuplicate::Ack,
        on_conflict: OnConflict::Wait,
        keyless: Keyless::DeadLetter,
        late: Late::Run,
        time_header: None,
    };

    /// The shortest lease: a heartbeat must fit into it several times.
    pub const MIN_LEASE: Duration = Duration::from_millis(100);

    /// The longest lease, retention and timeout.
    pub const MAX_RETENTION: Duration = Duration::from_hours(10 * 366 * 24);

    /// The largest limit of an outcome, in bytes: every store keeps it, every broker carries it.
    pub const LARGEST_OUTCOME: usize = 8 * 1024 * 1024;

    /// Starts from the defaults.
    pub const fn builder() -> PolicyBuilder {
        Self::DEFAULT.to_builder()
    }

    /// Starts from this policy.
    pub const fn to_builder(self) -> PolicyBuilder {
        PolicyBuilder(self)
    }

    /// How long a claim holds without a heartbeat.
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// How long a record is remembered after its last write.
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// How long one attempt may run, if that is limited. See [`PolicyBuilder::timeout`].
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The number of attempts after which a message is dead-lettered.
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The waits between attempts.
    pub const fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// What happens after an attempt that ended without a word.
    pub const fn in_doubt(&self) -> InDoubt {
        self.in_doubt
    }

    /// What happens while the store cannot be reached.
    pub const fn store_outage(&self) -> StoreOutage {
        self.store_outage
    }

    /// The same policy without what would let a handler run unclaimed.
    pub(crate) const fn claimed_only(mut self) -> Self {
        self.store_outage = StoreOutage::FailClosed;
        self.enforcement = Enforcement::Enforce;
        self
    }

    /// The same, and [plain](Enforcement::Plain).
    #[must_use]
    pub const fn plain(mut self) -> Self {
        self.store_outage = StoreOutage::FailClosed;
        self.enforcement = Enforcement::Plain;
        self
    }

    /// Whether what is not to run is kept from running, or only counted.
    pub const fn enforcement(&self) -> Enforcement {
        self.enforcement
    }

    pub(crate) const fn observes(&self) -> bool {
        matches!(self.enforcement, Enforcement::Observe)
    }

    /// What becomes of a message that its handler rejects.
    pub const fn on_rejected(&self) -> GivenUp {
        self.on_rejected
    }

    /// What becomes of a message whose attempts are used up.
    pub const fn on_exhausted(&self) -> GivenUp {
        self.on_exhausted
    }

    /// What becomes of a copy of a message that is done.
    pub const fn on_duplicate(&self) -> OnDuplicate {
        self.on_duplicate
    }

    /// What becomes of a copy of a message that is being handled.
    pub const fn on_conflict(&self) -> OnConflict {
        self.on_conflict
    }

    /// What becomes of a message without a usable key.
    pub const fn keyless(&self) -> Keyless {
        self.keyless
    }

    /// What becomes of a message that is older than the retention, and of whose key nothing is known.
    pub const fn late(&self) -> Late {
        self.late
    }

    /// Which header tells a message's own time, if not the transport's property.
    pub const fn time_header(&self) -> Option<&'static str> {
        self.time_header
    }

    /// The same policy for a message that is not late.
    pub(crate) const fn in_time(mut self) -> Self {
        self.late = Late::Run;
        self
    }

    /// Whether nothing is claimed, whatever the message.
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self.enforcement, Enforcement::Plain)
    }

    /// Whether a message without a usable key runs.
    pub(crate) const fn runs_keyless(&self) -> bool {
        self.observes() || matches!(self.keyless, Keyless::Run)
    }

    /// How many bytes an output may have, as JSON, to be remembered.
    ///
    /// A larger one fails an atomic handler for good, whose writes are rolled back. A leased
    /// handler's effect has happened: it is not run again, and its copies are told
    /// [`Refusal::OUTCOME_TOO_LARGE`](crate::handler::Refusal::OUTCOME_TOO_LARGE) instead of the output. Of a
    /// rejection that is larger, the typed error is left out.
    pub const fn max_outcome(&self) -> usize {
        self.max_outcome
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A policy in the making; usable in constants, so that a mistake is a compile error.
///
/// ```
/// use std::time::Duration;
/// use idem_core::{Policy, handler::{InDoubt, PolicyError}};
///
/// let days = |days: u64| Policy::builder().retention(Duration::from_hours(24 * days)).in_doubt(InDoubt::Quarantine);
/// assert_eq!(days(7).build()?.in_doubt(), InDoubt::Quarantine);
/// assert_eq!(days(0).build(), Err(PolicyError::RetentionShorterThanLease));
/// # Ok::<_, PolicyError>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct PolicyBuilder(Policy);

impl PolicyBuilder {
    /// How long a claim holds without a heartbeat, at least 100 ms.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.0.lease = lease;
        self
    }

    /// How long a record is remembered after its last write, at least as long as the lease.
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.0.retention = retention;
        self
    }

    /// How long one attempt may run. Then its future is dropped, and the attempt has failed
    /// ([`Cause::TimedOut`](crate::executor::Cause::TimedOut)).
    ///
    /// The time runs while the handler does: to wait for a claim, a connection or a turn takes nothing of it. A
    /// future is dropped only where it awaits: a handler that blocks its thread is not stopped. What it has
    /// spawned goes on. An atomic handler is rolled back, and has no more time than its store's
    /// transactions. In a group a message that takes too long is run once more by itself, with all of its time.
    ///
    /// A leased handler may have had its effect before it was stopped. If doubt is to be
    /// [quarantined](InDoubt::Quarantine), the message is quarantined at once
    /// ([`Execution::InDoubt`](crate::Execution::InDoubt)). Otherwise it is attempted again like any other that has
    /// failed; [`Attempt::is_in_doubt`](crate::Attempt::is_in_doubt) does not tell of it,
    /// [`Attempt::number`](crate::Attempt::number) does.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = Some(timeout);
        self
    }

    /// Sets the number of attempts after which a message is dead-lettered, at least 1.
    pub const fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.0.max_attempts = max_attempts;
        self
    }

    /// The waits between attempts.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.0.backoff = backoff;
        self
    }

    /// What happens after an attempt that ended without a word.
    pub const fn in_doubt(mut self, in_doubt: InDoubt) -> Self {
        self.0.in_doubt = in_doubt;
        self
    }

    /// What happens while the store cannot be reached.
    pub const fn store_outage(mut self, store_outage: StoreOutage) -> Self {
        self.0.store_outage = store_outage;
        self
    }

    /// How many bytes an output may have, as JSON, to be remembered: from 1 to
    /// [`Policy::LARGEST_OUTCOME`].
    pub const fn max_outcome(mut self, bytes: usize) -> Self {
        self.0.max_outcome = bytes;
        self
    }

    /// Whether what is not to run is kept from running, or only counted.
    pub const fn enforcement(mut self, enforcement: Enforcement) -> Self {
        self.0.enforcement = enforcement;
        self
    }

    /// What becomes of a message that its handler rejects.
    pub const fn on_rejected(mut self, given_up: GivenUp) -> Self {
        self.0.on_rejected = given_up;
        self
    }

    /// What becomes of a message whose attempts are used up.
    pub const fn on_exhausted(mut self, given_up: GivenUp) -> Self {
        self.0.on_exhausted = given_up;
        self
    }

    /// What becomes of a copy of a message that is done.
    pub const fn on_duplicate(mut self, duplicate: OnDuplicate) -> Self {
        self.0.on_duplicate = duplicate;
        self
    }

    /// What becomes of a copy of a message that is being handled.
    pub const fn on_conflict(mut self, conflict: OnConflict) -> Self {
        self.0.on_conflict = conflict;
        self
    }

    /// What becomes of a message without a usable key.
    pub const fn keyless(mut self, keyless: Keyless) -> Self {
        self.0.keyless = keyless;
        self
    }

    /// What becomes of a message that is older than the retention, and of whose key nothing is known.
    pub const fn late(mut self, late: Late) -> Self {
        self.0.late = late;
        self
    }

    /// Which header tells a message's own time, in seconds or milliseconds since 1970; without it AMQP's `timestamp`
    /// does.
    pub const fn time_header(mut self, name: &'static str) -> Self {
        self.0.time_header = Some(name);
        self
    }

    /// Checks the policy.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub const fn build(self) -> Result<Policy, PolicyError> {
        let Policy {
            lease,
            retention,
            timeout,
            max_attempts,
            backoff,
            in_doubt,
            store_outage,
            max_outcome,
            enforcement,
            ..
        } = self.0;
        if lease.as_nanos() < Policy::MIN_LEASE.as_nanos() {
            return Err(PolicyError::LeaseTooShort);
        }
        if retention.as_nanos() < lease.as_nanos() {
            return Err(PolicyError::RetentionShorterThanLease);
        }
        if retention.as_nanos() > Policy::MAX_RETENTION.as_nanos() {
            return Err(PolicyError::RetentionTooLong);
        }
        if let Some(timeout) = timeout {
            if timeout.is_zero() {
                return Err(PolicyError::NoTime);
            }
            if timeout.as_nanos() > Policy::MAX_RETENTION.as_nanos() {
                return Err(PolicyError::TimeoutTooLong);
            }
        }
        if max_attempts == 0 {
            return Err(PolicyError::NoAttempts);
        }
        if backoff.first().is_zero() || backoff.longest().as_nanos() < backoff.first().as_nanos() {
            return Err(PolicyError::Backoff);
        }
        if let (InDoubt::Quarantine, StoreOutage::FailOpen) = (in_doubt, store_outage) {
            return Err(PolicyError::FailsOpenInDoubt);
        }
        match (enforcement, store_outage) {
            (Enforcement::Observe, StoreOutage::FailOpen) => {
                return Err(PolicyError::ObservesAndFailsOpen);
            }
            (Enforcement::Plain, StoreOutage::FailOpen) => {
                return Err(PolicyError::PlainAndFailsOpen);
            }
            _ => {}
        }
        if max_outcome == 0 {
            return Err(PolicyError::NoOutcome);
        }
        if max_outcome > Policy::LARGEST_OUTCOME {
            return Err(PolicyError::OutcomeTooLarge);
        }
        Ok(self.0)
    }

    /// [`build`](Self::build) for constants: a mistake does not compile.
    ///
    /// # Panics
    /// With the words of [`PolicyError`].
    pub const fn build_const(self) -> Policy {
        match self.build() {
            Ok(policy) => policy,
            Err(error) => panic!("{}", error.message()),
        }
    }
}

/// What is wrong with a policy.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
#[non_exhaustive]
pub enum PolicyError {
    /// The lease is shorter than 100 ms.
    LeaseTooShort,
    /// Records would be forgotten while they are being worked on.
    RetentionShorterThanLease,
    /// The retention is longer than ten years.
    RetentionTooLong,
    /// Every attempt would be stopped before it began.
    NoTime,
    /// The timeout is longer than ten years.
    TimeoutTooLong,
    /// No attempt would ever run.
    NoAttempts,
    /// The first wait is zero, or longer than the longest.
    Backoff,
    /// Effects that must not happen twice are to be run without the store.
    FailsOpenInDoubt,
    /// What is only observed runs without the store anyway.
    ObservesAndFailsOpen,
    /// What is plain asks no store.
    PlainAndFailsOpen,
    /// No output could be remembered.
    NoOutcome,
    /// Outcomes may be larger than [`Policy::LARGEST_OUTCOME`].
    OutcomeTooLarge,
}

crate::debug_as_chain!(PolicyError);

impl PolicyError {
    const fn message(self) -> &'static str {
        match self {
            Self::LeaseTooShort => "the lease must be at least 100 ms",
            Self::RetentionShorterThanLease => {
                "the retention must be at least as long as the lease"
            }
            Self::RetentionTooLong => "the retention must be at most ten years",
            Self::NoTime => "the timeout must be longer than zero",
            Self::TimeoutTooLong => "the timeout must be at most ten years",
            Self::NoAttempts => "max_attempts must be at least 1",
            Self::Backoff => {
                "the backoff's first wait must be longer than zero and at most its longest"
            }
            Self::FailsOpenInDoubt => {
                "a handler that fails open may run twice: it cannot quarantine what is in doubt"
            }
            Self::ObservesAndFailsOpen => {
                "a handler that is only observed runs without its store anyway: it cannot fail open, too"
            }
            Self::PlainAndFailsOpen => "a plain handler asks no store: it cannot fail open",
            Self::NoOutcome => "max_outcome must be at least 1 byte",
            Self::OutcomeTooLarge => {
                "max_outcome must be at most 8 MiB: keep what is larger elsewhere, and return where"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn mistakes_are_found_when_built() {
        let build = |change: fn(PolicyBuilder) -> PolicyBuilder| change(Policy::builder()).build();
        assert_eq!(build(|p| p), Ok(Policy::DEFAULT));
        assert_eq!(
            build(|p| p.lease(SECOND / 11)),
            Err(PolicyError::LeaseTooShort)
        );
        assert_eq!(
            build(|p| p.lease(2 * SECOND).retention(SECOND)),
            Err(PolicyError::RetentionShorterThanLease)
        );
        assert_eq!(
            build(|p| p.retention(Duration::MAX)),
            Err(PolicyError::RetentionTooLong)
        );
        assert_eq!(
            build(|p| p.timeout(Duration::ZERO)),
            Err(PolicyError::NoTime)
        );
        assert_eq!(
            build(|p| p.timeout(Duration::MAX)),
            Err(PolicyError::TimeoutTooLong)
        );
        assert_eq!(build(|p| p.max_attempts(0)), Err(PolicyError::NoAttempts));
        assert_eq!(build(|p| p.max_outcome(0)), Err(PolicyError::NoOutcome));
        let largest = build(|p| p.max_outcome(Policy::LARGEST_OUTCOME));
        assert!(largest.is_ok());
        assert_eq!(
            build(|p| p.max_outcome(Policy::LARGEST_OUTCOME + 1)),
            Err(PolicyError::OutcomeTooLarge)
        );
        assert_eq!(
            build(|p| p.backoff(Backoff::new(2 * SECOND, SECOND))),
            Err(PolicyError::Backoff)
        );
        assert_eq!(
            build(|p| p.backoff(Backoff::new(Duration::ZERO, SECOND))),
            Err(PolicyError::Backoff)
        );
        let quarantine = |p: PolicyBuilder| p.in_doubt(InDoubt::Quarantine);
        assert!(quarantine(Policy::builder()).build().is_ok());
        assert_eq!(
            quarantine(Policy::builder().store_outage(StoreOutage::FailOpen)).build(),
            Err(PolicyError::FailsOpenInDoubt)
        );
        let plain = Policy::builder().enforcement(Enforcement::Plain);
        assert!(plain.build().is_ok());
        assert_eq!(
            plain.store_outage(StoreOutage::FailOpen).build(),
            Err(PolicyError::PlainAndFailsOpen)
        );
        let observe = |p: PolicyBuilder| p.enforcement(Enforcement::Observe);
        assert!(observe(quarantine(Policy::builder())).build().is_ok());
        assert_eq!(
            observe(Policy::builder().store_outage(StoreOutage::FailOpen)).build(),
            Err(PolicyError::ObservesAndFailsOpen)
        );
    }
}
