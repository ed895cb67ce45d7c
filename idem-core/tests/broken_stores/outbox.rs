//! The outbox of the plain store: a list, in the order of the commits.

use std::{
    collections::HashSet,
    future::ready,
    pin::Pin,
    time::{Duration, SystemTime},
};

use idem_core::{
    StoreError,
    handler::{FreeFrom, Outgoing, OutgoingContent, OutgoingId},
    store::outbox::{
        OutboxChange, OutboxCounts, OutboxEntry, OutboxGlance, OutboxListing, OutboxRow,
        OutboxState, OutboxTable, TAKEN_BYTES, Taken, Unpublished,
    },
};

use crate::{
    flaw::Flaw,
    store::{PlainStore, Shared},
};

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    id: OutgoingId,
    content: OutgoingContent,
    lane: Option<String>,
    attempts: u32,
    due: Duration,
    is_later: bool,
    /// When it was written, or is to leave.
    since: Duration,
    dead: bool,
    error: Option<String>,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

fn answer<'a, T: Send + 'a>(answer: T) -> Answer<'a, T> {
    Box::pin(ready(Ok(answer)))
}

impl PlainStore {
    /// What is committed with a completion.
    pub(crate) fn send(&self, outgoing: &[Outgoing]) {
        if self.has(Flaw::CommitsWithoutItsMessages) {
            return;
        }
        let sent: Vec<_> = outgoing.iter().map(|it| self.waiting(it)).collect();
        self.shared().outbox.extend(sent);
    }

    fn waiting(&self, message: &Outgoing) -> Waiting {
        let now = self.now();
        let delay = match message.free_from() {
            FreeFrom::Then(delay) => delay,
            FreeFrom::Time(micros) => {
                let time = SystemTime::UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs());
                time.duration_since(SystemTime::now()).unwrap_or_default()
            }
        };
        let at_once = if message.is_later() {
            self.has(Flaw::LeavesAtOnce)
        } else {
            self.has(Flaw::LeavesNothingToItsCommitter)
        };
        let delay = if at_once { Duration::ZERO } else { delay };
        let body = if self.has(Flaw::KeepsBodiesAsText) {
            String::from_utf8_lossy(&message.body)
                .into_owned()
                .into_bytes()
        } else {
            message.body.clone()
        };
        Waiting {
            id: message.id,
            content: OutgoingContent {
                message_id: message.message_id.clone(),
                target: message.target.clone(),
                head: message.head.clone(),
                body,
            },
            lane: message.lane.clone(),
            attempts: 0,
            due: now + delay,
            is_later: message.is_later(),
            since: if message.is_later() { now + delay } else { now },
            dead: false,
            error: None,
        }
    }

    fn state(&self, it: &Waiting) -> OutboxState {
        if it.dead {
            OutboxState::Dead
        } else if it.is_later && it.due > self.now() && it.attempts == 0 {
            OutboxState::Later
        } else {
            OutboxState::Waiting
        }
    }

    fn entry(&self, it: &Waiting) -> OutboxEntry {
        let error = it.error.clone();
        OutboxEntry::from(OutboxRow {
            id: it.id,
            message_id: it.content.message_id.clone(),
            target: it.content.target.clone(),
            lane: it.lane.clone(),
            state: self.state(it),
            due_micros: 0,
            attempts: it.attempts,
            error: error.filter(|_| !self.has(Flaw::ForgetsWhyItWasNotPublished)),
            created_micros: 0,
            bytes: it.content.body.len() as u64,
        })
    }

    fn counted(&self, shared: &Shared) -> OutboxCounts {
        let count = |state| {
            let those = shared.outbox.iter().filter(|it| self.state(it) == state);
            those.count() as u64
        };
        let waiting = |it: &&Waiting| self.state(it) == OutboxState::Waiting;
        let oldest = shared
            .outbox
            .iter()
            .filter(waiting)
            .map(|it| it.since)
            .min();
        let oldest = oldest.map_or(Duration::ZERO, |since| self.now().saturating_sub(since));
        OutboxCounts::new(
            count(OutboxState::Waiting),
            count(OutboxState::Later),
            count(OutboxState::Dead),
            oldest,
        )
    }

    fn is_cancelled(&self, it: &Waiting, id: &str) -> bool {
        let of_key = it.content.message_id.rsplit_once('#');
        let named = if self.has(Flaw::CancelsWhatBeginsSo) {
            it.content.message_id.starts_with(id)
        } else {
            it.content.message_id == id || of_key.is_some_and(|(key, _)| key == id)
        };
        named && self.state(it) == OutboxState::Later
    }
}

/// The first of each lane, and all that have none.
fn heads(outbox: &[Waiting], counts_the_dead: bool) -> HashSet<OutgoingId> {
    let mut lanes = HashSet::new();
    let first = outbox.iter().filter(|it| match &it.lane {
        Some(lane) => (counts_the_dead || !it.dead) && lanes.insert(lane),
        None => true,
    });
    first.map(|it| it.id).collect()
}

impl OutboxTable for PlainStore {
    fn take(&self, most: usize, lease: Duration) -> Answer<'_, Vec<Taken>> {
        let (now, mut shared) = (self.now(), self.shared());
        let heads = heads(&shared.outbox, !self.has(Flaw::PassesTheDead));
        let (mut taken, mut bytes) = (Vec::new(), 0);
        for it in &mut shared.outbox {
            let may_go = heads.contains(&it.id) || self.has(Flaw::IgnoresLanes);
            if !may_go || it.dead || it.due > now || taken.len() == most {
                continue;
            }
            bytes += it.content.head.len() + it.content.body.len();
            if bytes > TAKEN_BYTES && !taken.is_empty() && !self.has(Flaw::TakesAnyLength) {
                break;
            }
            it.attempts += 1;
            if self.has(Flaw::TakesForEver) {
                it.due = Duration::MAX;
            } else if !self.has(Flaw::TellsEverybody) {
                it.due = now + lease;
            }
            let in_lane = it.lane.is_some();
            taken.push(Taken::new(it.id, it.attempts, in_lane, it.content.clone()));
        }
        answer(taken)
    }

    fn remove<'a>(&'a self, published: &'a [OutgoingId]) -> Answer<'a, ()> {
        // What has no order, so that others are not kept.
        let keeps = |it: &Waiting| self.has(Flaw::KeepsWhatIsPublished) && it.lane.is_none();
        let mut shared = self.shared();
        shared
            .outbox
            .retain(|it| keeps(it) || !published.contains(&it.id));
        answer(())
    }

    fn note<'a>(&'a self, unpublished: &'a [Unpublished]) -> Answer<'a, ()> {
        let (now, mut shared) = (self.now(), self.shared());
        for noted in unpublished {
            let is_its_own = |it: &Waiting| {
                it.attempts == noted.attempts || self.has(Flaw::PutsBackWhatOthersHave)
            };
            let own = shared.outbox.iter_mut();
            for it in own.filter(|it| it.id == noted.id && is_its_own(it)) {
                if !self.has(Flaw::CountsWhatWasNotTried) {
                    it.attempts = noted.attempts_from_now_on();
                }
                it.error = Some(noted.error.clone());
                it.due = now + noted.next.unwrap_or_default();
                it.dead = noted.next.is_none() && !self.has(Flaw::NeverGivesUp);
            }
        }
        answer(())
    }

    fn check(&self) -> Answer<'_, ()> {
        answer(())
    }

    fn counts(&self) -> Answer<'_, OutboxCounts> {
        answer(self.counted(&self.shared()))
    }

    fn glance(&self) -> Answer<'_, OutboxGlance> {
        let (now, shared) = (self.now(), self.shared());
        let counts = self.counted(&shared);
        let heads = heads(&shared.outbox, true);
        let free = shared
            .outbox
            .iter()
            .filter(|it| heads.contains(&it.id) && !it.dead);
        let untaken = free.map(|it| now.saturating_sub(it.due)).max();
        let untaken = if self.has(Flaw::TakesWaitingForUntaken) {
            Some(counts.oldest)
        } else {
            untaken
        };
        answer(OutboxGlance::new(counts, untaken.unwrap_or_default()))
    }

    fn troubled(&self, most: u32) -> Answer<'_, Vec<OutboxEntry>> {
        let (most, shared) = (most as usize, self.shared());
        let heads = heads(&shared.outbox, true);
        let dead = shared.outbox.iter().filter(|it| it.dead).take(most);
        let stand = shared.outbox.iter().filter(|it| {
            let all = self.has(Flaw::SuspectsEveryLane);
            it.lane.is_some() && heads.contains(&it.id) && (all || it.error.is_some())
        });
        let mut due: Vec<_> = shared
            .outbox
            .iter()
            .filter(|it| it.lane.is_none() && !it.dead)
            .collect();
        due.sort_by_key(|it| it.due);
        let mut chosen: Vec<_> = dead
            .chain(stand.take(most))
            .chain(due.into_iter().take(most))
            .collect();
        chosen.sort_by_key(|it| it.id);
        chosen.dedup_by_key(|it| it.id);
        answer(chosen.into_iter().map(|it| self.entry(it)).collect())
    }

    fn list<'a>(&'a self, listing: &'a OutboxListing) -> Answer<'a, Vec<OutboxEntry>> {
        let shared = self.shared();
        let mut chosen: Vec<_> = shared.outbox.iter().map(|it| self.entry(it)).collect();
        chosen.retain(|it| {
            it.message_id.starts_with(&listing.prefix)
                && listing.after.is_none_or(|after| it.id > after)
                && listing.state.is_none_or(|state| it.state == state)
        });
        chosen.sort_by_key(|it| it.id);
        if !self.has(Flaw::ListsMoreThanAPage) {
            chosen.truncate(listing.limit as usize);
        }
        answer(chosen)
    }

    fn show(&self, id: OutgoingId) -> Answer<'_, Option<(OutboxEntry, OutgoingContent)>> {
        let shared = self.shared();
        let shown = shared.outbox.iter().find(|it| it.id == id);
        answer(shown.map(|it| (self.entry(it), it.content.clone())))
    }

    fn change<'a>(&'a self, change: &'a OutboxChange) -> Answer<'a, u64> {
        let (now, mut shared) = (self.now(), self.shared());
        let before = shared.outbox.len();
        let mut changed = 0;
        let mut free = |it: &mut Waiting| {
            (it.dead, it.due) = (false, now);
            changed += 1;
        };
        match change {
            OutboxChange::Retry(id) => {
                let dead = shared.outbox.iter_mut().filter(|it| it.dead);
                dead.filter(|it| id.is_none_or(|id| it.id == id))
                    .for_each(free);
            }
            OutboxChange::Redirect { id, target, head } => {
                for it in shared.outbox.iter_mut().filter(|it| it.id == *id) {
                    it.content.target.clone_from(target);
                    it.content.head.clone_from(head);
                    free(it);
                }
            }
            OutboxChange::Discard(id) => shared.outbox.retain(|it| it.id != *id),
            OutboxChange::Cancel(id) => shared.outbox.retain(|it| !self.is_cancelled(it, id)),
            _ => {}
        }
        answer(changed + (before - shared.outbox.len()) as u64)
    }
}
