//! A test's own connection to the database, while which lives the paused clock stands still.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use crate::clock::StandingStill;

/// A connection of the test's own, which sees what is committed: `fetch_all(&mut *run.database().await)`.
///
/// While it lives tokio's paused clock does not go on by itself, for at most half a minute of real time: a query takes
/// long by that clock, and leases and retentions would end meanwhile. So drop it before the next delivery.
#[derive(Debug)]
pub struct Database<C> {
    connection: C,
    _still: StandingStill,
}

const LONGEST: Duration = Duration::from_secs(30);

/// On the paused clock, which may go on by heartbeats while a handler waits for a connection: it is not to give up by
/// that.
pub(super) const LONGEST_ACQUIRE: Duration = Duration::from_hours(1);

impl<C> Database<C> {
    pub(super) async fn opened(opening: impl Future<Output = C>) -> Self {
        // Before it is opened, and until the queries have ended.
        let still = StandingStill::for_at_most(LONGEST);
        Self {
            connection: opening.await,
            _still: still,
        }
    }
}

impl<C> Deref for Database<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.connection
    }
}

impl<C> DerefMut for Database<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.connection
    }
}
