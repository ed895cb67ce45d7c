//! One record from its start to the decision about it, by a handler whose types are known.
//!
//! `partition` calls it in the record's task, and carries out the settlement that it returns. What must stay true:
//! nothing starts when the reading has ended, or while its partition is stopped; every way out is an [`Ended`], a panic
//! included.

use std::{
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::{
    __telemetry::LogLines,
    ErrorChain, Execution, Executor, Key, Policy, Prepared,
    executor::{Decoded, ExecutionKind, Moved, RunsOn, StreamMarks, Stretch},
    handler::{BatchOptions, Handler, Operation},
    message::KeyError,
    settlement::{
        Asker, Behind, Circumstances, Content, Delivered, Ladder, Next, Retries, Room, Settlement,
        Source, Tried, Tries, is_conflict, settle,
    },
    store::StreamStore,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::sleep,
};

use crate::{
    OnFailure, Record,
    reading::{Arrived, Reading},
    topic::Place,
};

/// How a record ended, and what becomes of it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) kind: ExecutionKind,
    pub(crate) key: Option<Key>,
    pub(crate) attempt: Option<u32>,
    pub(crate) error: Option<String>,
    pub(crate) settlement: Settlement,
}

/// A handler without its types.
pub(crate) trait RunHandler: Send + Sync {
    /// Takes a record as far as its settlement.
    fn run<'a>(&'a self, arrived: &'a Arrived, reading: &'a Reading) -> BoxFuture<'a, Ended>;

    /// How many records it does in one call and commit without a record of each in the store, if it does.
    fn records_by_mark(&self) -> Option<BatchOptions>;

    /// Decodes a record that is to be called with together with others.
    fn decode(&self, record: &Record) -> Decoded;

    /// Has the handler called with these, the next of the partition, and the mark moved over them.
    fn move_mark<'a>(
        &'a self,
        records: &'a mut [Arrived],
        reading: &'a Reading,
    ) -> BoxFuture<'a, Moved>;

    /// Whether the handler says what its records are ordered by.
    fn is_ordered(&self) -> bool;

    /// What it says of this one, if anything.
    fn ordered_by(&self, record: &Record) -> Option<Key>;

    /// Where the handler is in a partition, as the store keeps it.
    fn marks(&self, place: &Place, takeover: Duration) -> Result<StreamMarks, KeyError>;

    /// What the store lacks for the handler.
    fn check(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// A handler with its store, its state and its policy.
pub(crate) struct HandlerRunner<H, S, St> {
    pub(crate) executor: Executor<S>,
    pub(crate) state: Arc<St>,
    pub(crate) policy: Policy,
    pub(crate) on_failure: OnFailure,
    /// Where it goes for its next attempt, if not here.
    pub(crate) ladder: Option<Ladder>,
    /// As many as may run.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) log: LogLines,
    /// That records wait for the store.
    pub(crate) outage: LogLines,
    /// Whether it has told of a record that is not ordered, though its handler orders them.
    pub(crate) has_met_unordered: AtomicBool,
    pub(crate) handler: PhantomData<fn() -> H>,
}

/// After a bug of the handler's own serialisation or extraction code, say.
const AFTER_PANIC: Duration = Duration::from_secs(5);

impl<H, S, St> RunHandler for HandlerRunner<H, S, St>
where
    H: Handler<St>,
    H::Mode: RunsOn<S>,
    S: StreamStore,
    St: Send + Sync + 'static,
{
    fn run<'a>(&'a self, arrived: &'a Arrived, reading: &'a Reading) -> BoxFuture<'a, Ended> {
        Box::pin(async move {
            loop {
                let ran = AssertUnwindSafe(self.try_until_settled(arrived, reading)).catch_unwind();
                if let Ok(ended) = ran.await {
                    return ended;
                }
                tracing::error!(
                    topic = arrived.record.topic(),
                    offset = arrived.record.offset(),
                    "the code round the handler panicked: the record is tried again"
                );
                tokio::select! {
                    () = sleep(AFTER_PANIC) => {}
                    () = reading.ended.cancelled() => return Ended::left(),
                }
            }
        })
    }

    fn records_by_mark(&self) -> Option<BatchOptions> {
        self.executor.records_by_mark::<H>(&self.policy)
    }

    fn decode(&self, record: &Record) -> Decoded {
        Decoded::of::<H>(record.envelope())
    }

    fn move_mark<'a>(
        &'a self,
        records: &'a mut [Arrived],
        reading: &'a Reading,
    ) -> BoxFuture<'a, Moved> {
        Box::pin(async move {
            let Some(_slot) = self.start(&records[0], reading).await else {
                return Moved::Closed;
            };
            let stretch = Stretch {
                lease: &reading.lease,
                from: reading.mark(),
                messages: records
                    .iter_mut()
                    .map(|arrived| {
                        // It was called with before, if it is not there any more.
                        let decoded = arrived.decoded.take();
                        let decoded = decoded.unwrap_or_else(|| self.decode(&arrived.record));
                        (decoded, arrived.end())
                    })
                    .collect(),
            };
            self.executor
                .move_mark::<H, St>(stretch, &self.policy, &*self.state)
                .await
        })
    }

    fn is_ordered(&self) -> bool {
        H::ORDERED_BY.is_some()
    }

    fn ordered_by(&self, record: &Record) -> Option<Key> {
        let ordered = H::ORDERED_BY?;
        // The user's decoding may panic. It does so again where the record is handled, and is seen there.
        let named = catch_unwind(AssertUnwindSafe(|| ordered.of(&record.envelope())));
        named.ok()?.unwrap_or_else(|error| {
            if !self.has_met_unordered.swap(true, Relaxed) {
                tracing::warn!(scope = H::SCOPE, %error, "a record does not have what it is to be ordered by, and waits for none; others like it get no line");
            }
            None
        })
    }

    fn marks(
        &self,
        (topic, partition): &Place,
        takeover: Duration,
    ) -> Result<StreamMarks, KeyError> {
        let stream = Key::new(H::SCOPE, format!("kafka:{topic}:{partition}"))?;
        Ok(self.executor.stream_marks(stream, takeover))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        let checked = self.executor.check::<H>();
        checked
            .map(|checked| checked.map_err(|error| ErrorChain::of(&error).to_string()))
            .boxed()
    }
}

impl Ended {
    /// It is read again: by whoever has the partition then.
    fn left() -> Self {
        Self {
            kind: ExecutionKind::Abandoned,
            key: None,
            attempt: None,
            error: None,
            settlement: Settlement::Leave,
        }
    }

    fn of<T, E: idem_core::Failure>(
        execution: &Execution<T, E>,
        key: Option<&Key>,
        settlement: Settlement,
    ) -> Self {
        Self {
            kind: execution.kind(),
            key: key.cloned(),
            attempt: execution.attempt(),
            error: execution.error(),
            settlement,
        }
    }
}

impl<H, S, St> HandlerRunner<H, S, St>
where
    H: Handler<St>,
    H::Mode: RunsOn<S>,
    S: StreamStore,
    St: Send + Sync + 'static,
{
    async fn try_until_settled(&self, arrived: &Arrived, reading: &Reading) -> Ended {
        let Some(mut slot) = self.start(arrived, reading).await else {
            return Ended::left();
        };
        let circumstances = self.circumstances(arrived, reading);
        let record = &arrived.record;
        if record.is_unreadable() {
            let unreadable = Circumstances {
                content: Content::Unreadable,
                ..circumstances
            };
            let error =
                "a header has a name that is not UTF-8: its headers are left out".to_owned();
            let ended = Execution::<H::Output, H::Error>::Undecodable { error };
            return Ended::of(&ended, None, settle(ended.kind(), &unreadable));
        }
        let prepared = Prepared::<H>::new(record.envelope(), &self.policy);
        let mut message = match prepared {
            Ok(message) => message
                // Once: what is read again may have run as a replay.
                .replay(record.is_replay() && !arrived.may_have_run)
                .sent_again(record.is_replay())
                .redelivered(arrived.may_have_run)
                .attempted_before(record.attempts())
                .moving_mark(reading.mark_over(arrived)),
            Err(ended) => {
                return Ended::of(&ended, None, settle(ended.kind(), &circumstances));
            }
        };
        let mut tries = Tries::new(circumstances, record.is_replay() && !arrived.may_have_run);
        loop {
            let execution = self.executor.handle(&mut message, &*self.state).await;
            drop(slot);
            if tries.note(&Tried::of(&execution, &message, record.is_replay())) {
                message.start_over();
            } else {
                let wait = match tries.next(execution.kind(), Room::default()) {
                    Next::TryAgain => Duration::ZERO,
                    Next::Wait(wait) => wait,
                    Next::Settle(settlement) => {
                        if reading.mark_is_record && execution.kind() == ExecutionKind::LeaseLost {
                            reading.fail(&format!(
                                "the record at {} was not committed: another worker may have the partition, or its mark was set",
                                record.offset()
                            ));
                        }
                        return Ended::of(&execution, Some(message.key()), settlement);
                    }
                };
                self.tell(arrived, &execution, message.key(), wait);
                if execution.attempt().is_some() {
                    message.renew_owner();
                }
                if ended_while_waiting(&mut message, execution.kind(), wait, reading).await {
                    return Ended::left();
                }
            }
            slot = match self.start(arrived, reading).await {
                Some(slot) => slot,
                None => return Ended::left(),
            };
        }
    }

    /// A slot to run in; none if nothing of the reading starts any more.
    async fn start(&self, arrived: &Arrived, reading: &Reading) -> Option<SemaphorePermit<'_>> {
        let started = async {
            loop {
                reading.stops.until_starts(arrived.tag).await;
                let slot = self.slots.acquire().await.ok()?;
                if reading.stops.lets_start(arrived.tag) {
                    return Some(slot);
                }
            }
        };
        tokio::select! {
            biased;
            () = reading.ended.cancelled() => None,
            started = started => started,
        }
    }

    fn circumstances(&self, arrived: &Arrived, reading: &Reading) -> Circumstances<'_> {
        // Where all are handled one after the other there are no lanes.
        let keeps_place = (arrived.is_ordered() || reading.mark_is_record)
            && H::ORDERED_BY.is_some_and(|ordered| !ordered.may_overtake_failed());
        let ladder = self.ladder.as_ref().filter(|_| !keeps_place);
        let retries = ladder.map_or(Retries::Here, Retries::Ladder);
        Circumstances {
            policy: &self.policy,
            source: Source::Stream,
            behind: if reading.mark_is_record {
                Behind::Mark
            } else {
                Behind::Lane
            },
            on_failure: self.on_failure,
            asker: if arrived.record.is_replay() {
                Asker::Operator
            } else {
                Asker::Nobody
            },
            delivered: if arrived.may_have_run {
                Delivered::Again
            } else {
                Delivered::First
            },
            ..Circumstances::new(retries)
        }
    }

    /// Says in the log why a record waits, if that is worth a line and there is room for one.
    fn tell<T, E: idem_core::Failure>(
        &self,
        arrived: &Arrived,
        execution: &Execution<T, E>,
        key: &Key,
        wait: Duration,
    ) {
        let why = match execution.kind() {
            ExecutionKind::Failed => "an attempt failed",
            ExecutionKind::LeaseLost => {
                "the lease was lost while the handler ran: another worker has the key, or its record is gone"
            }
            ExecutionKind::StoreUnavailable => "the store cannot be asked",
            ExecutionKind::RecordCorrupt => {
                "the store's record of this key cannot be read: mend or delete it"
            }
            _ => return,
        };
        let lines = match execution.kind() {
            ExecutionKind::StoreUnavailable => &self.outage,
            _ => &self.log,
        };
        let Some(left_out) = lines.next(std::time::Instant::now()) else {
            return;
        };
        tracing::warn!(
            topic = arrived.record.topic(),
            partition = arrived.record.partition(),
            offset = arrived.record.offset(),
            %key,
            attempt = execution.attempt(),
            error = execution.error(),
            after = ?wait,
            left_out = (left_out > 0).then_some(left_out),
            "{why}: the record is tried again here"
        );
    }
}

/// Waits until there is a point in asking again. Says whether the reading has ended meanwhile.
async fn ended_while_waiting<H: Operation>(
    message: &mut Prepared<H>,
    kind: ExecutionKind,
    wait: Duration,
    reading: &Reading,
) -> bool {
    let over = async {
        if is_conflict(kind) {
            message.holder_ended().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = reading.ended.cancelled() => true,
        () = sleep(wait) => false,
        () = over => false,
    }
}
