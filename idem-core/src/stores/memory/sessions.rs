//! The sessions of a memory store, and the order in which to remove them.

use std::collections::{BTreeSet, HashMap};

use crate::{message::SessionKey, store::rules::session::Session};

#[derive(Default)]
pub(super) struct Sessions {
    by_key: HashMap<SessionKey, Session>,
    /// The sessions by the time from which they may be removed, so that nobody looks at all of them.
    by_end: BTreeSet<(i64, SessionKey)>,
}

impl Sessions {
    pub(super) fn get(&self, key: &SessionKey) -> Option<&Session> {
        self.by_key.get(key)
    }

    pub(super) fn put(&mut self, key: SessionKey, session: Session) {
        self.remove(&key);
        self.by_end.insert((session.remove_at(), key.clone()));
        self.by_key.insert(key, session);
    }

    /// Takes out at most `batch` sessions that may be removed.
    pub(super) fn take_removable(&mut self, batch: u32, now: i64) -> Vec<(SessionKey, Session)> {
        let ended = self.by_end.iter();
        let keys: Vec<_> = ended
            .take_while(|(remove_at, _)| *remove_at <= now)
            .take(batch as usize)
            .map(|(_, key)| key.clone())
            .collect();
        let taken = keys.into_iter();
        taken
            .filter_map(|key| self.remove(&key).map(|session| (key, session)))
            .collect()
    }

    fn remove(&mut self, key: &SessionKey) -> Option<Session> {
        let session = self.by_key.remove(key)?;
        self.by_end.remove(&(session.remove_at(), key.clone()));
        Some(session)
    }
}
