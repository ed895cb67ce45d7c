//! Brings what arrives to the call that waits for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::mpsc;
use uuid::Uuid;

use super::{
    ClientStats,
    reply::RawReply,
    stats::{Counters, Outlook},
};

/// The calls that wait, by their correlation ids.
#[derive(Debug)]
pub(super) struct PendingCalls {
    /// What all correlation ids of this client begin with, and no other's.
    mark: String,
    state: Mutex<State>,
    pub(super) counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    calls: HashMap<String, mpsc::UnboundedSender<Event>>,
    /// Why nothing can be sent now.
    outage: Option<String>,
}

/// What happens to a call.
#[derive(Debug)]
pub(super) enum Event {
    Replied(RawReply),
    /// No queue took a try.
    Returned,
    /// The broker did not take a try, for this reason.
    Refused(String),
}

/// A call that waits. Dropping it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Waiting {
    pending_calls: Arc<PendingCalls>,
    correlation_id: String,
    events: mpsc::UnboundedReceiver<Event>,
    outlook: Outlook,
}

impl PendingCalls {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            mark: format!("{}-", Uuid::new_v4().simple()),
            state: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// A further call, with a correlation id of its own.
    pub(super) fn register(self: &Arc<Self>) -> Waiting {
        let correlation_id = format!("{}{}", self.mark, self.counters.call());
        let (sender, events) = mpsc::unbounded_channel();
        self.state().calls.insert(correlation_id.clone(), sender);
        Waiting {
            pending_calls: Arc::clone(self),
            correlation_id,
            events,
            outlook: Outlook::default(),
        }
    }

    /// Ends the call that waits for this reply; counts it if none does.
    pub(super) fn reply(&self, correlation_id: Option<&str>, reply: RawReply) {
        let awaited = correlation_id.and_then(|id| self.state().calls.remove(id));
        match (awaited, correlation_id) {
            (Some(call), _) => {
                self.counters.replied(reply.replayed, reply.is_refusal());
                let _ = call.send(Event::Replied(reply));
            }
            (None, Some(id)) if self.is_ours(id) => {
                self.counters.late();
                tracing::debug!(correlation_id = id, "a late reply is ignored");
            }
            (None, id) => {
                self.counters.foreign();
                tracing::warn!(correlation_id = id, "a foreign reply is ignored");
            }
        }
    }

    /// Tells a call what became of one of its tries; nobody if it has ended.
    pub(super) fn tell(&self, correlation_id: &str, event: Event) {
        if let Some(call) = self.state().calls.get(correlation_id) {
            let _ = call.send(event);
        }
    }

    /// Why nothing can be sent now, if that is so.
    pub(super) fn outage(&self) -> Option<String> {
        self.state().outage.clone()
    }

    pub(super) fn set_outage(&self, outage: Option<String>) {
        self.state().outage = outage;
    }

    pub(super) fn counts(&self) -> ClientStats {
        let in_flight = self.state().calls.len();
        self.counters
            .counts(in_flight.try_into().unwrap_or(u64::MAX))
    }

    /// Whether a call of this client had this correlation id.
    fn is_ours(&self, correlation_id: &str) -> bool {
        let number = correlation_id.strip_prefix(&self.mark);
        let number = number.and_then(|number| number.parse::<u64>().ok());
        number.is_some_and(|number| number < self.counters.calls())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is written under the lock is never half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    pub(super) fn correlation_id(&self) -> &str {
        &self.correlation_id
    }

    /// No reply is to be expected any more.
    pub(super) fn lose_hope(&mut self) {
        self.outlook = Outlook::Hopeless;
    }

    /// # Cancel safety
    /// No event is lost.
    pub(super) async fn event(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            // The reply has come, and was the last.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let waited = self
            .pending_calls
            .state()
            .calls
            .remove(&self.correlation_id);
        if waited.is_some() {
            self.pending_calls.counters.ended(self.outlook);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply() -> RawReply {
        RawReply::new(b"1".to_vec(), None)
    }

    #[tokio::test]
    async fn a_reply_reaches_the_call_that_waits_for_it_and_only_the_first_one_does() {
        let pending_calls = PendingCalls::new();
        let (mut a, b) = (pending_calls.register(), pending_calls.register());
        pending_calls.reply(Some(a.correlation_id()), reply());
        pending_calls.reply(Some(a.correlation_id()), reply());
        assert!(matches!(a.event().await, Event::Replied(_)));
        let counts = pending_calls.counts();
        assert_eq!((counts.replies, counts.late), (1, 1), "{counts}");
        assert_eq!(counts.in_flight, 1, "the other one: {b:?}");
    }

    #[test]
    fn a_reply_to_a_dropped_call_is_late_and_one_to_nobodys_is_foreign() {
        let pending_calls = PendingCalls::new();
        let id = pending_calls.register().correlation_id().to_owned();
        let other = PendingCalls::new().register().correlation_id().to_owned();
        let never = format!("{}7", pending_calls.mark);
        pending_calls.reply(Some(&id), reply());
        for foreign in [None, Some(""), Some(&*other), Some(&*never)] {
            pending_calls.reply(foreign, reply());
        }
        let counts = pending_calls.counts();
        assert_eq!((counts.late, counts.foreign), (1, 4), "{counts}");
        assert_eq!((counts.in_flight, counts.replies), (0, 0), "{counts}");
        assert_eq!((counts.given_up, counts.unanswered), (1, 0), "{counts}");
    }

    #[test]
    fn each_call_that_has_ended_is_counted_once_by_how() {
        let pending_calls = PendingCalls::new();
        let [answered, given_up, mut hopeless] = [(); 3].map(|()| pending_calls.register());
        pending_calls.reply(Some(answered.correlation_id()), reply());
        hopeless.lose_hope();
        let counts = pending_calls.counts();
        assert_eq!((counts.in_flight, counts.replies), (2, 1), "{counts}");
        assert_eq!((counts.given_up, counts.unanswered), (0, 0), "{counts}");
        drop((answered, given_up, hopeless));
        let counts = pending_calls.counts();
        assert_eq!((counts.in_flight, counts.replies), (0, 1), "{counts}");
        assert_eq!((counts.given_up, counts.unanswered), (1, 1), "{counts}");
    }
}
