//! One handler's reading of a stream: who reads, from where, and how far it has come.
//!
//! `consumer` claims the stream before it consumes, and asks here about each delivery; `channel_context` tells what is
//! settled. What must stay true:
//!
//! - The place where a handler begins is in the store before anything is handled.
//! - The mark passes nothing that is neither done nor confirmed in another queue.
//! - A worker that was taken over moves no mark.
//!
//! `reading` owns how far one channel has come.
// docs/decisions/0045

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime},
};

use idem_core::{
    ErrorChain, StoreError,
    executor::{ClaimedStream, StreamMarks},
    store::{Owner, StreamLease, Write},
};
use lapin::{
    Channel, Connection, message::Delivery as RawDelivery, options::BasicQosOptions,
    types::FieldTable,
};
use tokio::time::{Instant, sleep};

use super::channels::Settling;
use crate::{
    connection::health::HealthState,
    error::TopologyError,
    telemetry::StreamMeters,
    topology::{self, Queue, Step},
    wire::{StreamOffset, stream},
};

mod fair_share;
pub(super) mod look;
mod place;
mod reading;
mod source;
mod watch;

pub(super) use fair_share::FairShares;
use fair_share::{COUNTED, FairShare};
pub(super) use reading::{Arrived, Reading};
pub(super) use source::StreamSource;

/// How long the mark may lag behind.
const SAVE: Duration = Duration::from_secs(1);

/// Clocks differ: the broker's may be so much before this one.
const MARGIN: Duration = Duration::from_mins(1);

/// The message below the mark is there, so it comes soon: later only by a link that is full, or from a node that still
/// fetches it. A reading that has waited so long for it ends, and another is tried.
const FIRST_DELIVERY: Duration = Duration::from_secs(10);

/// The pause between two looks at whether the channel is there.
const STEP: Duration = Duration::from_millis(200);

/// How long others have to claim a partition that this worker leaves to them.
const UNCLAIMED: Duration = Duration::from_secs(5);

/// How long what is under way in a partition may take to end before the partition is given back.
const QUIET: Duration = Duration::from_secs(5);

/// A stream as one handler reads it, over all connections of a worker.
pub(super) struct StreamReader {
    queue: Queue,
    marks: StreamMarks,
    health: Arc<HealthState>,
    meters: Arc<StreamMeters>,
    owner: Owner,
    /// If it is a partition of a super stream.
    share: Option<Arc<FairShare>>,
    state: Mutex<State>,
}

/// A reading that goes on. Dropped, it does not, whatever has ended it: health and metrics tell nothing of it any more.
struct Reads<'a>(&'a StreamReader);

impl Drop for Reads<'_> {
    fn drop(&mut self) {
        let Self(reader) = self;
        reader.meters.reads_no_more();
        reader.health.reads_anew(reader.queue.name());
    }
}

#[derive(Default)]
struct State {
    reading: Option<Arc<Reading>>,
    /// What was claimed, until a reading has it.
    claimed: Option<StreamLease>,
    /// For how long readings from this mark on have waited in vain for the message below it.
    silence: Option<(u64, Duration)>,
    /// A mark that the stream does not reach, and of which the store is not told yet.
    beyond_end: Option<u64>,
    /// Whether the store says that the stream is barred.
    is_barred: bool,
    /// When this worker first began at a place that moves, and found no message there.
    began: Option<SystemTime>,
}

impl StreamReader {
    pub(super) fn new(
        queue: Queue,
        StreamSource { marks, meters }: StreamSource,
        health: Arc<HealthState>,
    ) -> Self {
        Self {
            queue,
            marks,
            health,
            meters,
            owner: Owner::new(),
            share: None,
            state: Mutex::default(),
        }
    }

    /// The same, as one of the partitions that this worker and others share.
    pub(super) fn sharing(self, share: Option<Arc<FairShare>>) -> Self {
        Self { share, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reading(&self) -> Option<Arc<Reading>> {
        self.state().reading.clone()
    }

    /// Waits until the stream is this worker's, however long another one has it. An error if the channel ends.
    pub(super) async fn claim(
        &self,
        connection: &Connection,
        channel: &Channel,
    ) -> Result<(), TopologyError> {
        self.save_last().await;
        let queue = self.queue.name();
        let (mut tries, mut stands_by) = (0, false);
        let mut unclaimed = None;
        loop {
            // Asks nothing, but fails when the connection has gone.
            let alive = channel.basic_qos(self.queue.broker_prefetch(), BasicQosOptions::default());
            alive
                .await
                .map_err(|error| topology::explain(Step::Consume(queue), &self.queue, error))?;
            if let Some(wait) = self.leaves_to_others(connection, &mut unclaimed).await {
                self.meters.reads_no_more();
                self.health.stands_by(queue);
                pause(channel, wait).await;
                continue;
            }
            let asked = Instant::now();
            let claimed = match self.end_last_lease().await {
                Ok(()) => self.marks.claim(self.owner).await,
                Err(error) => Err(error),
            };
            if let Some(lease) = claimed.as_ref().ok().and_then(ClaimedStream::lease) {
                self.state().claimed = Some(lease.clone());
            }
            let wait = match claimed {
                Ok(ClaimedStream::Barred { mark, again, .. }) => {
                    self.meters.reads_no_more();
                    self.note_barred(mark);
                    self.give_up_share();
                    self.health.stands_by(queue);
                    again
                }
                Ok(ClaimedStream::Acquired { lease, mark }) if self.ends_before(mark) => {
                    self.bar(&lease, mark).await;
                    tries += 1;
                    StreamMarks::AGAIN.wait(tries)
                }
                Ok(ClaimedStream::Acquired { lease, mark }) => {
                    self.is_barred_no_more();
                    let placed = match mark {
                        Some(_) => Ok(mark),
                        None => self.place(connection, &lease).await?,
                    };
                    match placed {
                        Ok(mark) => {
                            self.begin(lease, mark, asked);
                            return Ok(());
                        }
                        Err(error) => {
                            tracing::warn!(queue, %error, "where the handler begins was not kept");
                            tries += 1;
                            StreamMarks::AGAIN.wait(tries)
                        }
                    }
                }
                Ok(ClaimedStream::Held { again }) => {
                    self.give_up_share();
                    self.meters.reads_no_more();
                    self.health.stands_by(queue);
                    if !stands_by {
                        tracing::info!(
                            queue,
                            "another worker reads the stream: this one stands by"
                        );
                    }
                    stands_by = true;
                    again
                }
                Err(error) => {
                    let error = ErrorChain::of(&error).to_string();
                    self.health.not_consuming(queue, Some(&error));
                    tracing::warn!(
                        queue,
                        error,
                        "the stream is not read before the store has told its mark"
                    );
                    tries += 1;
                    StreamMarks::AGAIN.wait(tries)
                }
            };
            pause(channel, wait).await;
        }
    }

    /// How long this partition is left to workers that read fewer, if it is. What they do not claim is not left to
    /// them.
    async fn leaves_to_others(
        &self,
        connection: &Connection,
        unclaimed: &mut Option<Instant>,
    ) -> Option<Duration> {
        let (share, name) = (self.share.as_ref()?, self.queue.shared_name());
        share.count(connection, COUNTED).await;
        if share.try_take(&name) {
            return None;
        }
        // The connection was lost before it was given back.
        self.leave().await;
        // An error is told by who claims.
        let state = self.marks.look().await.ok()?;
        if state.is_none_or(|state| state.beyond_end().is_none()) {
            // Somebody has set the mark, and another worker may read on.
            self.is_barred_no_more();
        }
        if state.is_some_and(|state| !state.remaining.is_zero()) {
            *unclaimed = None;
            return Some(self.marks.standby());
        }
        // Its reader may have stopped just now.
        share.count(connection, self.marks.standby()).await;
        if share.try_take(&name) {
            return None;
        }
        let now = Instant::now();
        let since = *unclaimed.get_or_insert(now);
        if now - since < UNCLAIMED {
            return Some(STEP);
        }
        tracing::info!(
            queue = &*name,
            "no other worker claims the partition: this one reads more than its share"
        );
        share.take_what_is_left(&name, now);
        None
    }

    fn give_up_share(&self) {
        if let Some(share) = &self.share {
            share.remove(self.queue.name());
        }
    }

    /// Returns when the partition has been given back, because other workers read fewer.
    async fn give_back(&self, reading: &Reading, connection: &Connection) {
        let Some(share) = &self.share else {
            return pending().await;
        };
        let queue = self.queue.name();
        loop {
            // Not all partitions at the same time.
            sleep(SAVE.mul_f64(1.0 + fastrand::f64())).await;
            share.count(connection, COUNTED).await;
            // It is not known yet where the handler begins. Another worker would look for that later, and pass what
            // came meanwhile.
            if reading.from.moves() && reading.prefix().mark().is_none() {
                continue;
            }
            if share.try_give_back(queue, Instant::now()) {
                break;
            }
        }
        tracing::info!(
            queue,
            "the partition is given back: another worker reads fewer"
        );
        // What is under way is begun again by the next reader, and waits there.
        let quiet = Instant::now() + QUIET;
        while Instant::now() < quiet && reading.prefix().front().is_some() {
            sleep(STEP / 4).await;
        }
        self.leave().await;
        reading.end();
    }

    /// Ends the lease of the last reading, if a call may still commit under it: the next claim has another token.
    async fn end_last_lease(&self) -> Result<(), StoreError> {
        let last = self.reading();
        if let Some(last) = last.filter(|last| last.may_commit.load(Relaxed)) {
            let mark = last.prefix().mark();
            // Fenced: it has ended.
            let _ = self.marks.end(&last.lease, mark).await?;
            self.state().reading = None;
        }
        Ok(())
    }

    /// What the channel before has done, and has not told yet. If that fails, it is delivered again.
    async fn save_last(&self) {
        // It stays: whoever is stopped before the next one begins gives it back.
        let Some(last) = self.reading() else {
            return;
        };
        let mark = last.prefix().mark();
        if let Err(error) = self.marks.extend(&last.lease, mark).await {
            tracing::debug!(error = %ErrorChain::of(&error), "the last mark was not saved");
        }
    }

    /// Whether this worker has seen the stream end before this mark, and the store is not told yet.
    fn ends_before(&self, mark: Option<u64>) -> bool {
        let beyond_end = self.state().beyond_end;
        beyond_end.is_some() && beyond_end == mark
    }

    /// Tells the store, for whoever reads next.
    async fn bar(&self, lease: &StreamLease, mark: Option<u64>) {
        let Some(mark) = mark else { return };
        if let Ok(Write::Applied) = self.marks.bar(lease, mark).await {
            let mut state = self.state();
            (state.beyond_end, state.is_barred) = (None, true);
        }
    }

    fn note_barred(&self, mark: u64) {
        let queue = self.queue.name();
        let was_barred = {
            let mut state = self.state();
            state.beyond_end = None;
            std::mem::replace(&mut state.is_barred, true)
        };
        if !was_barred {
            tracing::error!(
                queue,
                mark,
                "the stream is not read before somebody sets its mark"
            );
        }
        self.health.mark_beyond_end(queue, Some(mark));
    }

    fn is_barred_no_more(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.is_barred) || state.beyond_end.take().is_some() {
            self.health.mark_beyond_end(self.queue.name(), None);
        }
    }

    /// Finds the place where a handler begins that has no mark, and writes it down: asked for again, it would be
    /// another one. None while no message shows it; an inner error if the store does not take it.
    async fn place(
        &self,
        connection: &Connection,
        lease: &StreamLease,
    ) -> Result<Result<Option<u64>, StoreError>, TopologyError> {
        let from = self.from();
        if !from.moves() || self.state().began.is_some() {
            return Ok(Ok(None));
        }
        let began = SystemTime::now();
        let name = self.queue.name();
        let place = place::find(connection, name, from).await;
        let place =
            place.map_err(|error| topology::explain(Step::Consume(name), &self.queue, error))?;
        if place.is_none() {
            self.state().began = Some(began);
            return Ok(Ok(None));
        }
        let kept = self.marks.extend(lease, place).await;
        Ok(kept.and_then(|kept| match kept {
            Write::Applied => Ok(place),
            Write::Fenced => Err(StoreError::unavailable("another worker has the stream")),
        }))
    }

    fn from(&self) -> StreamOffset {
        let from = self.queue.as_stream().map(|stream| stream.from);
        from.unwrap_or_default()
    }

    fn begin(&self, lease: StreamLease, mark: Option<u64>, claimed: Instant) {
        let queue = self.queue.name();
        let reading = Reading::new(&self.queue, lease, mark, self.from(), claimed);
        self.health.reads_anew(queue);
        if let Some(share) = &self.share {
            share.add(self.queue.shared_name());
        }
        if mark.is_some() {
            self.forget_begin();
        }
        let mut state = self.state();
        state.claimed = None;
        let reading = match &state.reading {
            // The channel was renewed.
            Some(last) if last.lease == reading.lease => {
                tracing::debug!(queue, mark, "reading the stream on");
                reading.goes_on(last)
            }
            _ => {
                tracing::info!(queue, mark, "reading the stream");
                reading
            }
        };
        state.reading = Some(Arc::new(reading));
    }

    /// Forgets when this worker began. If somebody takes the mark away, the handler begins anew: at another place, if
    /// that moves.
    fn forget_begin(&self) {
        self.state().began = None;
    }

    /// The consumer's arguments. The message below the mark comes again: so it shows whether the stream is as it was.
    pub(super) fn arguments(&self) -> FieldTable {
        let Some(reading) = self.reading() else {
            return FieldTable::default();
        };
        let from = match reading.mark {
            Some(mark) => StreamOffset::Offset(mark.saturating_sub(1)),
            None => match self.state().began {
                // Also if the broker's clock is not quite this one.
                Some(began) => reading.from.asked_again(began - MARGIN),
                None => reading.from,
            },
        };
        from.arguments()
    }

    /// The reading of a channel that has just been opened.
    pub(super) fn on_channel(&self, settling: &Settling) -> Option<Arc<Reading>> {
        let reading = self.reading()?;
        reading.opened(settling);
        Some(reading)
    }

    /// Says what a delivery is.
    pub(super) fn receive(&self, reading: &Reading, raw: &RawDelivery) -> Arrived {
        let offset = stream::offset(&raw.properties);
        if let (Some(mark), Some(first)) = (reading.mark, offset) {
            self.compare(mark, first, reading);
        }
        reading.receive(raw.delivery_tag, offset)
    }

    /// Whether the stream is as it was, by the first delivery that is not below what was asked for.
    fn compare(&self, mark: u64, first: u64, reading: &Reading) {
        if first.saturating_add(1) < mark || reading.is_verified.swap(true, Relaxed) {
            return;
        }
        self.state().silence = None;
        if first > mark {
            self.truncated(mark, first);
        }
    }

    /// Messages from this offset on were removed before they came, up to the first that is there.
    fn truncated(&self, mark: u64, first: u64) {
        let queue = self.queue.name();
        tracing::warn!(
            queue,
            mark,
            first,
            "the stream was truncated above the mark: what was between was removed before it was handled. Let the \
             stream keep more, or its workers be faster"
        );
        self.health.truncated(queue, mark, first);
    }

    /// The message below the mark has not come. Once may be chance; after many times in vain the stream ends before the
    /// mark: it was deleted and declared again, or set back to an earlier state.
    async fn fail(&self, reading: &Reading, mark: u64) {
        let queue = self.queue.name();
        let silent = {
            let mut state = self.state();
            let before = state.silence.filter(|(same, _)| *same == mark);
            let silent = before.map_or(Duration::ZERO, |(_, before)| before) + FIRST_DELIVERY;
            state.silence = Some((mark, silent));
            silent
        };
        if silent < self.marks.patience() {
            let text = format!("the message below the mark, {mark}, has not come for {silent:?}");
            tracing::warn!(
                queue,
                mark,
                ?silent,
                "the message below the mark does not come: another reading is tried"
            );
            // Another worker's node may have it.
            self.leave().await;
            reading.end();
            return self.health.not_consuming(queue, Some(&text));
        }
        tracing::error!(
            queue,
            mark,
            "the stream ends before the mark: it was deleted and made anew, or set back. It is not read before \
             somebody sets the mark, because what has these offsets now may never have been handled"
        );
        self.health.mark_beyond_end(queue, Some(mark));
        self.state().beyond_end = Some(mark);
        reading.end();
    }

    /// Tells the store the mark, and that the stream is still read, for ever.
    pub(super) async fn keep(&self, connection: &Connection) {
        let Some(reading) = self.reading() else {
            return pending().await;
        };
        {
            let _reads = Reads(self);
            tokio::select! {
                () = self.save(&reading) => {}
                () = self.give_back(&reading, connection) => {}
                never = watch::watch(self, &reading, connection) => match never {},
            }
        }
        pending::<()>().await;
    }

    /// Returns when the reading has ended.
    async fn save(&self, reading: &Reading) {
        let queue = self.queue.name();
        let began = Instant::now();
        // When the lease was last extended for certain.
        let mut extended = reading.claimed;
        let mut fails = false;
        let tick = SAVE.min(self.marks.takeover() / 4);
        loop {
            tokio::select! {
                () = sleep(tick) => {}
                () = reading.due.notified() => {}
            }
            if let Some(mark) = reading.mark.filter(|mark| *mark > 0)
                && began.elapsed() > FIRST_DELIVERY
                && !reading.is_verified.load(Relaxed)
            {
                return self.fail(reading, mark).await;
            }
            let moved = reading.prefix().moved();
            if moved.is_none() && extended.elapsed() < self.marks.takeover() / 3 {
                continue;
            }
            let mark = moved.map(|saved| saved.mark);
            let asked = Instant::now();
            match self.marks.extend(&reading.lease, mark).await {
                Ok(Write::Applied) => {
                    (extended, fails) = (asked, false);
                    reading.saved(moved);
                    if moved.is_some() {
                        self.forget_begin();
                    }
                }
                Ok(Write::Fenced) => {
                    tracing::warn!(
                        queue,
                        "another worker reads the stream now, or its mark was set"
                    );
                    return reading.end();
                }
                Err(error) => {
                    let error = ErrorChain::of(&error).to_string();
                    if !std::mem::replace(&mut fails, true) {
                        tracing::warn!(queue, error, "the mark of the stream cannot be saved");
                    }
                    // Its lease may be another's by now. Whoever claims tells what is wrong with the store.
                    if extended.elapsed() > self.marks.takeover() {
                        self.health.not_consuming(queue, Some(&error));
                        return reading.end();
                    }
                }
            }
        }
    }

    /// Gives the stream back, with all that is done; also one that is only claimed.
    pub(super) async fn leave(&self) {
        let (reading, claimed) = {
            let mut state = self.state();
            (state.reading.take(), state.claimed.take())
        };
        let (lease, mark) = match (&reading, &claimed) {
            // The lease of the last reading has ended.
            (Some(reading), Some(claimed)) if reading.lease != *claimed => (claimed, None),
            (Some(reading), _) => (&reading.lease, reading.prefix().mark()),
            (None, Some(claimed)) => (claimed, None),
            (None, None) => return,
        };
        self.give_up_share();
        self.meters.reads_no_more();
        if let Err(error) = self.marks.give_back(lease, mark).await {
            let (queue, error) = (self.queue.name(), ErrorChain::of(&error).to_string());
            tracing::warn!(
                queue,
                error,
                "the stream was not given back: standbys wait for its lease"
            );
        }
    }
}

/// Waits in short steps: the other queues of the connection wait for this one when it has gone.
async fn pause(channel: &Channel, wait: Duration) {
    let again = Instant::now() + wait;
    while Instant::now() < again && channel.status().connected() {
        sleep(STEP.min(wait)).await;
    }
}

#[cfg(test)]
mod tests;
