//! Which numbers of a session are in use, and what was asked with them (pure).

use std::{collections::BTreeMap, sync::Arc};

use idem_core::{KeptRequest, KeptSession};

use super::super::message::{Message, Unsendable};

#[cfg(test)]
mod tests;

/// The numbers of a session whose answers the client still awaits, and the next one.
#[derive(Debug)]
pub(super) struct RequestWindow {
    next: u64,
    window: u64,
    entries: BTreeMap<u64, Entry>,
    /// Grows with every change that is to be kept.
    version: u64,
    /// How many were given up because a later request needed their place.
    given_up: u64,
}

#[derive(Debug)]
struct Entry {
    message: Arc<Message>,
    /// Whether a call waits for the answer now.
    asked: bool,
    /// Whether it may have been sent before: its fate is not known.
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

/// A number to ask with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) number: u64,
    /// The lowest number whose answer is still awaited, at the moment when this one was taken.
    pub(super) awaited: u64,
    /// Whether it may have been sent before.
    pub(super) doubtful: bool,
}

impl RequestWindow {
    pub(super) fn new(window: u32) -> Self {
        Self {
            next: 0,
            window: window.max(1).into(),
            entries: BTreeMap::new(),
            version: 0,
            given_up: 0,
        }
    }

    /// What an earlier process has left. All that it awaited may have been sent.
    pub(super) fn kept(kept: KeptSession) -> Result<Self, Unsendable> {
        let mut requests = Self::new(kept.window);
        for request in kept.unanswered {
            requests.next = requests.next.max(request.number.saturating_add(1));
            let number = request.number;
            let entry = Entry {
                message: Arc::new(message(&kept.server, request)?),
                asked: false,
                doubtful: true,
            };
            requests.entries.insert(number, entry);
        }
        requests.next = requests.next.max(kept.next);
        Ok(requests)
    }

    /// The next number, for this request; `None` while the window is full. A number that no call waits
    /// for any more is given up for it, if it is in the way.
    pub(super) fn begin(&mut self, message: &Arc<Message>) -> Option<Place> {
        while self.next - self.awaited() >= self.window {
            let lowest = self.entries.first_entry()?;
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

    /// A number that has no answer and that no call waits for, with its request. It is to be kept once
    /// more, though nothing in it has changed: whoever may not save it may not ask, either.
    pub(super) fn again(&mut self, number: u64) -> Result<(Place, Arc<Message>), Taken> {
        let (awaited, next) = (self.awaited(), self.next);
        let entry = match self.entries.get_mut(&number) {
            Some(entry) if entry.asked => return Err(Taken::Asked),
            Some(entry) => entry,
            None if number < next => return Err(Taken::Settled),
            None => return Err(Taken::Unused),
        };
        entry.asked = true;
        self.version += 1;
        let place = Place {
            number,
            awaited,
            doubtful: entry.doubtful,
        };
        Ok((place, Arc::clone(&entry.message)))
    }

    /// It is to be kept once more, though nothing in it has changed.
    pub(super) fn touch(&mut self) {
        self.version += 1;
    }

    /// Nobody awaits its answer any more: it has come, say.
    pub(super) fn settle(&mut self, number: u64) {
        if self.entries.remove(&number).is_some() {
            self.version += 1;
        }
    }

    /// Nobody is to await its answer any more, unless a call does now. Tells whether that is new.
    pub(super) fn give_up(&mut self, number: u64) -> bool {
        let idle = self.entries.get(&number).is_some_and(|entry| !entry.asked);
        if idle {
            self.settle(number);
        }
        idle
    }

    /// Nobody waits for its answer now, and it may have been sent.
    pub(super) fn set_aside(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            (entry.asked, entry.doubtful) = (false, true);
        }
    }

    /// Requests without an answer that no call waits for.
    pub(super) fn unanswered(&self) -> Vec<KeptRequest> {
        let entries = self.entries.iter().filter(|(_, entry)| !entry.asked);
        entries.map(request).collect()
    }

    /// What is to be kept, and its version.
    pub(super) fn to_keep(&self) -> (u64, u64, Vec<KeptRequest>) {
        let entries = self.entries.iter().map(request);
        (self.version, self.next, entries.collect())
    }

    /// How many numbers were given up because a later request needed their place.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The lowest number whose answer is still awaited.
    fn awaited(&self) -> u64 {
        let lowest = self.entries.first_key_value();
        lowest.map_or(self.next, |(number, _)| *number)
    }
}

fn request((number, entry): (&u64, &Entry)) -> KeptRequest {
    KeptRequest {
        number: *number,
        body: String::from_utf8_lossy(&entry.message.body).into_owned(),
        headers: entry.message.own_headers(),
    }
}

fn message(queue: &str, request: KeptRequest) -> Result<Message, Unsendable> {
    let message = Message::raw(queue, request.body.into_bytes());
    let mut headers = request.headers.iter();
    headers.try_fold(message?, |message, (name, value)| {
        message.with_header(name, value)
    })
}
