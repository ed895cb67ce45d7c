//! Tokio's paused clock: that it is paused, and that it stands still while something outside of it works.

use std::{
    sync::mpsc::{Sender, channel},
    time::Duration,
};

use tokio::time::Instant;

/// Panics unless tokio's clock is paused.
///
/// # Panics
/// With what to write instead.
pub(crate) fn insist_on_paused() {
    let (before, began) = (Instant::now(), std::time::Instant::now());
    while began.elapsed() < Duration::from_micros(1) {
        std::hint::spin_loop();
    }
    assert!(
        Instant::now() == before,
        "the harness needs tokio's paused clock: write `#[tokio::test(start_paused = true)]`"
    );
}

/// While it lives the paused clock does not move on by itself, for at most so long: what is waited for is
/// on another thread, of which tokio does not know.
#[derive(Debug)]
pub(super) struct StandingStill {
    _until_dropped: Sender<()>,
}

impl StandingStill {
    pub(super) fn for_at_most(longest: Duration) -> Self {
        let (until_dropped, dropped) = channel();
        // Tokio's clock stands still while a thread of its own blocks.
        tokio::task::spawn_blocking(move || dropped.recv_timeout(longest));
        Self {
            _until_dropped: until_dropped,
        }
    }
}
