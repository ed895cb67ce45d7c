//! Versions of RabbitMQ, and what follows from them.

use std::fmt;

/// `4.3` of `4.3.6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u16,
    minor: u16,
}

impl Version {
    /// Before it, messages do not expire in quorum queues, and so never leave a rung.
    pub(crate) const OLDEST: Self = Self::new(3, 10);

    const DEFAULT_LIMIT: Self = Self::new(4, 0);

    const NATIVE_RETRIES: Self = Self::new(4, 3);

    pub(crate) const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Reads `4.3.6`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (major, rest) = text.split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Self::new(major.parse().ok()?, minor.parse().ok()?))
    }

    /// How often a quorum queue returns a message that has no limit of its own.
    pub(super) fn default_delivery_limit(self) -> Option<u64> {
        (self >= Self::DEFAULT_LIMIT).then_some(20)
    }

    /// Whether `nack(requeue)` counts towards the limit. A crash always does.
    pub(super) fn counts_returns(self) -> bool {
        self < Self::NATIVE_RETRIES
    }

    /// Whether quorum queues delay what is returned, if they are told to.
    pub(super) fn has_native_retries(self) -> bool {
        self >= Self::NATIVE_RETRIES
    }

    /// Whether all queues take back what was not settled for long; else only quorum queues do.
    pub(super) fn times_all_queues(self) -> bool {
        self < Self::NATIVE_RETRIES
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        let read = |text: &str| Version::parse(text).unwrap();
        assert_eq!(read("3.10.8"), Version::OLDEST);
        assert_eq!(read("4.3"), Version::new(4, 3));
        assert_eq!(read("4.1.0-rc.1"), Version::new(4, 1));
        assert!(read("3.9.29") < Version::OLDEST);
        for text in ["", "4", "four.0", "4.x"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_version_does_changes_with_4_0_and_4_3() {
        let table = [
            ("3.13.7", None, true, false),
            ("4.0.5", Some(20), true, false),
            ("4.2.1", Some(20), true, false),
            ("4.3.0", Some(20), false, true),
        ];
        for (text, limit, counts, delays) in table {
            let version = Version::parse(text).unwrap();
            assert_eq!(version.default_delivery_limit(), limit, "{text}");
            assert_eq!(version.counts_returns(), counts, "{text}");
            assert_eq!(version.has_native_retries(), delays, "{text}");
        }
    }
}
