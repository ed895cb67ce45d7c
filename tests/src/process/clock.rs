//! A clock that shows another time than this machine's.

use std::process::Command;

use idem_servers::install;

use crate::servers::off_thread;

/// A clock that is ahead, for a process to live by. Durations are as long as everybody's.
#[derive(Debug, Clone)]
pub struct Clock {
    library: String,
    ahead: &'static str,
}

impl Clock {
    /// A clock that is ahead by so much: `+5m`.
    pub async fn ahead(by: &'static str) -> Self {
        let faketime = off_thread(install::installed_faketime).await;
        // It tells where its library is; itself, it would stand between us and the process.
        let told = Command::new(faketime)
            .args(["-m", "-f", by, "printenv", "LD_PRELOAD"])
            .output()
            .expect("faketime runs");
        let library = String::from_utf8_lossy(&told.stdout).trim().to_owned();
        assert!(library.contains("libfaketime"), "{told:?}");
        Self { library, ahead: by }
    }

    /// The variables of a process that lives by it.
    pub(super) fn variables(&self) -> [(&str, &str); 3] {
        [
            ("LD_PRELOAD", &self.library),
            ("FAKETIME", self.ahead),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
    }
}
