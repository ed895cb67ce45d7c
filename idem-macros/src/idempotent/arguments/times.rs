//! Whether lease, retention, timeout and backoff fit together. The rules and the defaults are those of
//! `idem_core::Policy`, which checks them again when it is built.

use std::time::Duration;

use syn::Error;

use super::Arguments;
use crate::{idempotent::duration::Written, mistakes::Mistakes};

const LEASE: Duration = Duration::from_secs(30);
const SHORTEST_LEASE: Duration = Duration::from_millis(100);
const RETENTION: Duration = Duration::from_hours(72);
const LONGEST_RETENTION: Duration = Duration::from_hours(10 * 366 * 24);

/// Adds what is wrong, at the value that is wrong.
pub(super) fn check(arguments: &Arguments, mistakes: &mut Mistakes) {
    let Arguments {
        lease, retention, ..
    } = arguments;
    let mut wrong = |written: &Written, message: &str| {
        mistakes.push(Error::new(written.span, message));
    };
    if let Some(lease) = lease.as_ref().filter(|it| it.duration < SHORTEST_LEASE) {
        wrong(
            lease,
            "a lease must be at least `100ms`: a heartbeat fits into it several times",
        );
    }
    if let Some(retention) = retention
        .as_ref()
        .filter(|it| it.duration > LONGEST_RETENTION)
    {
        wrong(retention, "a retention must be at most ten years");
    }
    match (lease, retention) {
        (Some(lease), Some(retention)) if lease.duration > retention.duration => wrong(
            retention,
            "the retention is shorter than the lease: the key would be forgotten while it is being worked on",
        ),
        (Some(lease), None) if lease.duration > RETENTION => wrong(
            lease,
            "the lease is longer than the retention, which is `72h` by default: write `retention = …` too",
        ),
        (None, Some(retention)) if LEASE > retention.duration => wrong(
            retention,
            "the retention is shorter than the lease, which is `30s` by default: write `lease = …` too",
        ),
        _ => {}
    }
    if let Some(timeout) = &arguments.timeout {
        if timeout.duration.is_zero() {
            wrong(
                timeout,
                "every attempt would be stopped before it began: write how long one may run, such as `timeout = \"30s\"`, or remove `timeout`",
            );
        } else if timeout.duration > LONGEST_RETENTION {
            wrong(timeout, "a timeout must be at most ten years");
        }
    }
    if let Some((first, longest)) = &arguments.backoff
        && (first.duration.is_zero() || longest.duration < first.duration)
    {
        wrong(
            first,
            "the first wait must be longer than zero and at most the longest, as in `\"1s..5m\"`",
        );
    }
}

#[cfg(test)]
mod tests {
    use idem_core::Policy;

    use super::*;

    #[test]
    fn rules_and_defaults_are_those_of_the_core() {
        assert_eq!(LEASE, Policy::DEFAULT.lease());
        assert_eq!(RETENTION, Policy::DEFAULT.retention());
        assert_eq!(SHORTEST_LEASE, Policy::MIN_LEASE);
        assert_eq!(LONGEST_RETENTION, Policy::MAX_RETENTION);
    }
}
