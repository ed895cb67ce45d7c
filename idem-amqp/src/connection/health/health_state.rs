//! What a worker knows of itself: written by its parts, read by [`Health`](super::Health).

use std::{
    fmt::Display,
    sync::{Mutex, MutexGuard, PoisonError},
};

use idem_core::{
    message::SequencePlace,
    store::{PurgeRuns, outbox::OutboxGlance},
};
use tokio::time::Instant;

use super::state::{Phase, State};
use crate::{
    telemetry::Links,
    wire::incident::{Incident, Incidents, Tally},
};

/// What a worker, or a publisher of its own, knows of itself.
#[derive(Debug, Default)]
pub(crate) struct HealthState {
    tally: Tally,
    links: Links,
    state: Mutex<State>,
}

impl HealthState {
    /// The state of a worker with these queues, before it runs.
    pub(crate) fn of<'a>(queues: impl Iterator<Item = &'a str>) -> Self {
        Self {
            tally: Tally::default(),
            links: Links::default(),
            state: Mutex::new(State::new(queues)),
        }
    }

    /// Counts what happened, and says in the log what is done about it.
    /// `on` says on which connection, or on which queue.
    pub(crate) fn record_incident(
        &self,
        incident: Incident,
        on: &str,
        error: Option<&dyn Display>,
    ) {
        self.tally.add(incident);
        self.links.record_incident(incident);
        let error = error.map(tracing::field::display);
        if incident == Incident::Unblocked {
            tracing::info!(%incident, on, "{}", incident.story());
        } else {
            tracing::warn!(%incident, on, error, "{}", incident.story());
        }
    }

    pub(crate) fn incidents(&self) -> Incidents {
        self.tally.incidents()
    }

    /// The worker runs until what this returns is dropped.
    pub(crate) fn run(&self) -> impl Drop + use<'_> {
        self.state().start(Instant::now());
        Run(self)
    }

    pub(crate) fn drain(&self) {
        self.state().phase = Phase::Draining;
    }

    pub(crate) fn purges(&self, runs: PurgeRuns) {
        self.state().purging = Some(runs);
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    pub(crate) fn connected(&self, broker: &impl ToString) {
        self.links.connected();
        let mut state = self.state();
        state.broker = Some(broker.to_string());
        state.connection.recover(Instant::now());
    }

    /// Why, if it is known; an earlier call may have told.
    pub(crate) fn disconnected(&self, error: Option<&str>) {
        let (now, error) = (Instant::now(), error.map(str::to_owned));
        let mut state = self.state();
        state.broker = None;
        state.connection.fail(now, error);
        for queue in &mut state.queues {
            queue.consuming.fail(now, None);
        }
    }

    pub(crate) fn consuming(&self, queue: &str) {
        if let Some(queue) = self.state().queue(queue) {
            queue.consuming.recover(Instant::now());
        }
    }

    /// Another worker reads this stream: that is as it should be.
    pub(crate) fn stands_by(&self, stream: &str) {
        self.consuming(stream);
        self.reads_anew(stream);
    }

    /// What stood still in the last reading of this stream does not yet in the next one, here or elsewhere.
    pub(crate) fn reads_anew(&self, stream: &str) {
        self.stands_still(stream, None);
        self.stops(stream, None);
    }

    /// This stream stops at a message that cannot be handled, with this mark; or it goes on.
    pub(crate) fn stops(&self, stream: &str, mark: Option<u64>) {
        let mut state = self.state();
        let Some(handling) = state.queue(stream).map(|stream| &mut stream.handling) else {
            return;
        };
        match mark {
            Some(mark) => {
                let error = format!("the mark is {mark}, and the log names the message");
                handling.fail(Instant::now(), Some(error));
            }
            None => handling.recover(Instant::now()),
        }
    }

    /// Messages of this stream were removed before they were handled.
    pub(crate) fn truncated(&self, stream: &str, mark: u64, first: u64) {
        let error = format!("it begins with {first}, and the handler was at {mark}");
        if let Some(stream) = self.state().queue(stream) {
            stream.truncation.fail(Instant::now(), Some(error));
        }
    }

    /// The mark of this stream does not move, for this reason; or it does.
    pub(crate) fn stands_still(&self, stream: &str, error: Option<String>) {
        let mut state = self.state();
        let Some(progress) = state.queue(stream).map(|stream| &mut stream.progress) else {
            return;
        };
        match error {
            Some(error) => progress.fail(Instant::now(), Some(error)),
            None => progress.recover(Instant::now()),
        }
    }

    /// This stream ends before the mark; or no longer.
    pub(crate) fn mark_beyond_end(&self, stream: &str, mark: Option<u64>) {
        let mut state = self.state();
        let Some(reach) = state.queue(stream).map(|stream| &mut stream.reach) else {
            return;
        };
        match mark {
            Some(mark) => reach.fail(Instant::now(), Some(format!("the mark is {mark}"))),
            None => reach.recover(Instant::now()),
        }
    }

    pub(crate) fn not_consuming(&self, queue: &str, error: Option<&dyn Display>) {
        let error = error.map(ToString::to_string);
        if let Some(queue) = self.state().queue(queue) {
            queue.consuming.fail(Instant::now(), error);
        }
    }

    /// The store has answered a client's registration or sign of life.
    pub(crate) fn answered_client(&self) {
        self.state().registrations.answered(Instant::now());
    }

    /// The store has not answered a client, who asks again.
    pub(crate) fn failed_client(&self, error: String) {
        self.state().registrations.failed(Instant::now(), error);
    }

    /// What a look at the outbox has told.
    pub(crate) fn outbox(&self, told: Result<OutboxGlance, String>) {
        let now = Instant::now();
        let outbox = &mut self.state().outbox;
        match told {
            Ok(OutboxGlance { counts, .. }) => outbox.set_contents(now, counts.dead, counts.oldest),
            Err(error) => outbox.set_unreadable(now, error),
        }
    }

    /// A numbered message of this queue was claimed, in its turn or not: then the mark is told.
    pub(crate) fn numbered(&self, queue: &str, place: &SequencePlace, ahead_of: Option<u64>) {
        let mut state = self.state();
        let Some(gaps) = state.queue(queue).map(|queue| &mut queue.gaps) else {
            return;
        };
        let Some(mark) = ahead_of else {
            return gaps.in_turn(place);
        };
        if gaps.ahead(place, mark, Instant::now()) {
            let SequencePlace {
                sequence, number, ..
            } = place;
            tracing::warn!(
                queue, %sequence, number, mark,
                "numbered messages wait: the number at the mark has not come, or is not done"
            );
        }
    }

    /// A message of this queue came for the first time, long after its number was done.
    pub(crate) fn stale_number(&self, queue: &str, place: &SequencePlace) {
        let mut state = self.state();
        let due = state
            .queue(queue)
            .is_some_and(|queue| queue.stale.try_tell(Instant::now()));
        drop(state);
        if due {
            let SequencePlace {
                sequence, number, ..
            } = place;
            tracing::warn!(
                queue, %sequence, number,
                "a message came under a number that was done long ago, and is taken for a copy of that: \
                 if its producer has begun its numbers anew, give it another `epoch`, for its messages \
                 are lost"
            );
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // What is written under the lock is never half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the run of a worker that was dropped, too.
struct Run<'a>(&'a HealthState);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.0.state().end(Instant::now());
    }
}
