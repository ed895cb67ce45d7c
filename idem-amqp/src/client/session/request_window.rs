//! Which numbers of a session are in use, and what was asked with them (pure).
//!
//! `shared_session` keeps one under its lock; the calls of a session take their numbers here. What must stay true:
//!
//! - A number stands for one request, for ever.
//! - `awaited` never exceeds a number whose answer may still be asked for, because the server forgets all below it.
//! - No more numbers are in use than the server's window has room for.

use std::{collections::BTreeMap, sync::Arc};

use idem_core::session_storage::{StoredRequest, StoredSession};

use super::super::message::{Message, Unsendable};

#[cfg(test)]
mod tests;

/// The numbers of a session whose answers the client still awaits, and the next one.
#[derive(Debug)]
pub(super) struct RequestWindow {
    /// The number of the next new request. It only grows.
    next: u64,
    /// How many numbers from the lowest awaited one on may be in use: what the server has agreed
    /// to.
    window: u64,
    /// The awaited numbers. The lowest is what the server is told.
    entries: BTreeMap<u64, Entry>,
    /// Grows with every change that is to be saved, so that a save knows whether it is still the
    /// newest.
    version: u64,
    /// How many were given up because a later request needed their place. It only grows.
    given_up: u64,
}

/// A number whose answer is awaited.
#[derive(Debug)]
struct Entry {
    /// The request, so that it can be sent again as it was.
    message: Arc<Message>,
    /// Whether a call waits for the answer now. Only then is it safe from being given up.
    asked: bool,
    /// Whether it may have been sent before, so that nobody knows whether it was handled.
    doubtful: bool,
}

/// Why a number cannot be asked with once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// A call waits for its answer now.
    Asked,
    /// It was answered, or given up.
    Settled,
    /// No request has it yet.
    Unused,
}

/// A number to ask with, and what the server is told with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) number: u64,
    /// The lowest number whose answer was still awaited at the moment when this one was taken.
    pub(super) awaited: u64,
    /// Whether it may have been sent before.
    pub(super) doubtful: bool,
}

impl RequestWindow {
    /// The window of a session that has asked nothing yet.
    pub(super) fn new(window: u32) -> Self {
        Self {
            next: 0,
            window: window.max(1).into(),
            entries: BTreeMap::new(),
            version: 0,
            given_up: 0,
        }
    }

    /// What an earlier process has left. All that it awaited may have been sent before it ended.
    pub(super) fn kept(kept: StoredSession) -> Result<Self, Unsendable> {
        let mut requests = Self::new(kept.window);
        for request in kept.unanswered {
            // A number that is used again for another request would get the old one's answer. So
            // the next one is above all that are kept, even if the saved `next` is too low.
            requests.next = requests.next.max(request.number.saturating_add(1));
            let number = request.number;
            let entry = Entry {
                message: Arc::new(message(&kept.server, request)?),
                // No call of this process waits for it yet.
                asked: false,
                doubtful: true,
            };
            requests.entries.insert(number, entry);
        }
        requests.next = requests.next.max(kept.next);
        Ok(requests)
    }

    /// The next number, for this request; `None` while the window is full. The lowest numbers are
    /// given up for it if they are in the way and no call waits for them.
    pub(super) fn begin(&mut self, message: &Arc<Message>) -> Option<Place> {
        while self.next - self.awaited() >= self.window {
            let lowest = self.entries.first_entry()?;
            // The window cannot move past a number that a call waits for: the server would forget
            // its answer.
            if lowest.get().asked {
                return None;
            }
            lowest.remove();
            self.given_up += 1;
        }
        let number = self.next;
        self.next += 1;
        self.version += 1;
        let entry = Entry {
            message: Arc::clone(message),
            asked: true,
            doubtful: false,
        };
        self.entries.insert(number, entry);
        Some(Place {
            number,
            awaited: self.awaited(),
            doubtful: false,
        })
    }

    /// A number that has no answer and that no call waits for, with its request.
    pub(super) fn again(&mut self, number: u64) -> Result<(Place, Arc<Message>), Taken> {
        let (awaited, next) = (self.awaited(), self.next);
        let entry = match self.entries.get_mut(&number) {
            // Two calls with one number would both wait for one reply.
            Some(entry) if entry.asked => return Err(Taken::Asked),
            Some(entry) => entry,
            // The server may have forgotten its answer. It would refuse the request as stale.
            None if number < next => return Err(Taken::Settled),
            None => return Err(Taken::Unused),
        };
        entry.asked = true;
        // It is to be saved once more, though nothing in it has changed. If another process has
        // taken the session over, the save fails, and then this one must not ask, either.
        self.version += 1;
        let place = Place {
            number,
            awaited,
            doubtful: entry.doubtful,
        };
        Ok((place, Arc::clone(&entry.message)))
    }

    /// Asks for a save though nothing has changed: whether it succeeds says whether the session is
    /// still this process's.
    pub(super) fn touch(&mut self) {
        self.version += 1;
    }

    /// Nobody awaits this number's answer any more: it has come, or never will. From the next
    /// request on, the server may forget it.
    pub(super) fn settle(&mut self, number: u64) {
        if self.entries.remove(&number).is_some() {
            self.version += 1;
        }
    }

    /// Gives a number up, unless a call waits for its answer now. Tells whether it was given up by
    /// this.
    pub(super) fn give_up(&mut self, number: u64) -> bool {
        let idle = self.entries.get(&number).is_some_and(|entry| !entry.asked);
        if idle {
            self.settle(number);
        }
        idle
    }

    /// The call that waited has ended, and the request may have been sent. The number stays in use,
    /// so that it can be asked with again.
    pub(super) fn set_aside(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            // No new version: what is saved says neither.
            (entry.asked, entry.doubtful) = (false, true);
        }
    }

    /// Requests without an answer that no call waits for, by number.
    pub(super) fn unanswered(&self) -> Vec<StoredRequest> {
        let entries = self.entries.iter().filter(|(_, entry)| !entry.asked);
        entries.map(request).collect()
    }

    /// What is to be saved: the version, the next number, and all awaited requests, also those that
    /// a call waits for now. After a crash these may have been handled.
    pub(super) fn to_keep(&self) -> (u64, u64, Vec<StoredRequest>) {
        let entries = self.entries.iter().map(request);
        (self.version, self.next, entries.collect())
    }

    /// How many numbers were given up because a later request needed their place.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// The version of what would be saved now.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The lowest number whose answer is still awaited; the next one if there is none.
    fn awaited(&self) -> u64 {
        let lowest = self.entries.first_key_value();
        lowest.map_or(self.next, |(number, _)| *number)
    }
}

/// An awaited request as it is saved.
fn request((number, entry): (&u64, &Entry)) -> StoredRequest {
    StoredRequest {
        number: *number,
        body: String::from_utf8_lossy(&entry.message.body).into_owned(),
        headers: entry.message.own_headers(),
    }
}

/// The message of a request that was saved; an error if it can no longer be sent as it is.
fn message(queue: &str, request: StoredRequest) -> Result<Message, Unsendable> {
    let message = Message::raw(queue, request.body.into_bytes());
    let mut headers = request.headers.iter();
    headers.try_fold(message?, |message, (name, value)| {
        message.with_header(name, value)
    })
}
