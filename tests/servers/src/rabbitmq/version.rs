//! Versions of RabbitMQ.

use std::{fmt, path::Path, str::FromStr};

use serde::{Deserialize, Serialize};

/// A version, as far as it says what a broker does: `4.3` of `4.3.6`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Version {
    major: u16,
    minor: u16,
}

/// The versions to test with: each is the first of those that treat requeued messages as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// No delivery limit unless one is set.
    V3_10,
    /// A delivery limit by default, and every return counts.
    V4_0,
    /// `nack(requeue)` does not count; retries with a delay.
    V4_3,
}

impl Version {
    /// `Version::new(4, 3)` is any 4.3.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// What the name of the server's own plugin says, which lies beside the folder of its scripts:
    /// asking one of the scripts takes a second.
    pub(super) fn of_scripts(folder: &Path) -> Option<Self> {
        let real = folder.join("rabbitmqctl").canonicalize().ok()?;
        let plugins = real.parent()?.parent()?.join("plugins").read_dir().ok()?;
        let mut names = plugins.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.find_map(|name| name.strip_prefix("rabbit-")?.parse().ok())
    }
}

impl Generation {
    /// All, the oldest first.
    pub const ALL: [Self; 3] = [Self::V3_10, Self::V4_0, Self::V4_3];

    /// The one of that name, such as `4.0`.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|generation| generation.version().to_string() == name)
    }

    /// The version that it is named after.
    pub const fn version(self) -> Version {
        match self {
            Self::V3_10 => Version::new(3, 10),
            Self::V4_0 => Version::new(4, 0),
            Self::V4_3 => Version::new(4, 3),
        }
    }
}

impl FromStr for Version {
    type Err = ();

    /// What comes after the second number does not matter.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.split('.').map(|number| number.parse().map_err(drop));
        let mut next = || numbers.next().ok_or(())?;
        Ok(Self::new(next()?, next()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn versions_are_ordered_as_numbers() {
        let parsed = |text: &str| text.parse::<Version>();
        assert_eq!(parsed("3.10.8"), Ok(Version::new(3, 10)));
        assert_eq!(parsed("4.3"), Ok(Version::new(4, 3)));
        assert!(parsed("3.10.8") > parsed("3.9.1") && parsed("4.0") > parsed("3.10"));
        assert!(parsed("common-3.10.8").is_err() && parsed("4").is_err());
        assert_eq!(Version::new(3, 10).to_string(), "3.10");
    }

    #[test]
    fn a_server_is_of_the_version_that_its_plugin_is_named_after() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = folder.path().join("lib/rabbitmq_server-4.0.5");
        let scripts = folder.path().join("bin");
        for folder in [
            "sbin",
            "plugins/rabbit_common-9.9.9",
            "plugins/rabbit-4.0.5",
        ] {
            fs::create_dir_all(server.join(folder)).expect("it is ours");
        }
        fs::write(server.join("sbin/rabbitmqctl"), "").expect("it is ours");
        fs::create_dir(&scripts).expect("it is ours");
        symlink(server.join("sbin/rabbitmqctl"), scripts.join("rabbitmqctl")).expect("a link");
        assert_eq!(Version::of_scripts(&scripts), Some(Version::new(4, 0)));
        assert_eq!(Version::of_scripts(folder.path()), None);
    }
}
