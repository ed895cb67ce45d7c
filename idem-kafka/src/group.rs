//! The consumer group: which partitions are this worker's, and what Kafka says of them.
//!
//! `worker` polls it and starts a `partition` for each that is assigned. What must stay true: a partition that is
//! assigned is paused at once, and what was fetched by then is not delivered; whoever reads one notices at once that it
//! was taken away. Calls of the client that wait for Kafka run on threads of their own, and a member has left its group
//! when the last of them is answered.
// docs/decisions/0047

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, SystemTime},
};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{
        BaseConsumer, CommitMode, Consumer as _, ConsumerContext, RebalanceProtocol,
        StreamConsumer, stream_consumer::StreamPartitionQueue,
    },
    error::{KafkaError as ClientError, RDKafkaErrorCode},
    message::BorrowedMessage,
    metadata::MetadataTopic,
    topic_partition_list::TopicPartitionListElem,
    types::RDKafkaRespErr,
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Cluster, KafkaError, health::HandlerHealth, topic::Place};

const CANNOT_BE_MADE: &str = "the Kafka client that reads cannot be made";
const UNKNOWN_ENDS: &str = "Kafka does not tell where the partition begins and ends";
const UNKNOWN_COMMIT: &str = "Kafka does not tell what the group has committed";
const UNKNOWN_TIME: &str = "Kafka does not tell which record is as young";
const UNREADABLE: &str = "the partition cannot be read from its mark on";

/// How many questions of a member may be under way.
const QUESTIONS: usize = 256;

/// For an answer of Kafka.
const ANSWER: Duration = Duration::from_secs(10);

/// How often it is looked whether Kafka can be reached again.
const LOOK: Duration = Duration::from_secs(5);

/// A partition that this worker has from now on, until the token is cancelled.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) place: Place,
    pub(crate) revoked: CancellationToken,
}

/// What the client calls.
pub(crate) struct Callbacks {
    assigned: mpsc::UnboundedSender<Assigned>,
    here: Mutex<HashMap<Place, CancellationToken>>,
}

impl Callbacks {
    fn note_assigned(&self, partitions: &TopicPartitionList) {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        for element in partitions.elements() {
            let place = (Arc::from(element.topic()), element.partition());
            let revoked = CancellationToken::new();
            if let Some(before) = here.insert(place.clone(), revoked.clone()) {
                before.cancel();
            }
            // It is received until the worker stops.
            let _ = self.assigned.send(Assigned { place, revoked });
        }
    }

    fn note_revoked(&self, partitions: &TopicPartitionList) {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        for element in partitions.elements() {
            if let Some(revoked) = here.remove(&(Arc::from(element.topic()), element.partition())) {
                revoked.cancel();
            }
        }
    }
}

impl ClientContext for Callbacks {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: ClientError, reason: &str) {
        tracing::debug!(%error, reason, "the Kafka client reports an error");
    }
}

/// What the client says of connections and the like: worth no line of its own.
pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            tracing::error!(facility, "{message}");
        }
        _ => tracing::debug!(facility, "{message}"),
    }
}

impl ConsumerContext for Callbacks {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let is_cooperative = matches!(
            consumer.rebalance_protocol(),
            RebalanceProtocol::Cooperative
        );
        let done = if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            // Not where the group has committed: the store knows better, and has not been asked yet. An offset that is
            // there.
            let begun = partitions.set_all_offsets(Offset::Beginning);
            let assigned = begun.and_then(|()| {
                if is_cooperative {
                    consumer.incremental_assign(partitions)
                } else {
                    consumer.assign(partitions)
                }
            });
            let paused = assigned.and_then(|()| consumer.pause(partitions));
            self.note_assigned(partitions);
            paused
        } else {
            self.note_revoked(partitions);
            if is_cooperative {
                consumer.incremental_unassign(partitions)
            } else {
                consumer.unassign()
            }
        };
        if let Err(error) = done {
            tracing::warn!(%error, "a rebalance could not be carried out");
        }
    }
}

pub(crate) type Queue = StreamPartitionQueue<Callbacks>;

/// One member of a consumer group.
#[derive(Clone)]
pub(crate) struct Member(Arc<Client>);

struct Client {
    /// There until it is dropped.
    consumer: Option<Arc<StreamConsumer<Callbacks>>>,
    /// What Kafka was asked, and has not answered.
    questions: TaskTracker,
    /// How many more questions may be under way: each has a thread.
    turns: Arc<Semaphore>,
    left: CancellationToken,
}

/// Leaving the group waits for Kafka.
impl Drop for Client {
    fn drop(&mut self) {
        let (consumer, left) = (self.consumer.take(), self.left.clone().drop_guard());
        // If there is no thread to be had, the consumer is dropped here, and this thread waits.
        let _ = thread::Builder::new().spawn(move || {
            drop(consumer);
            drop(left);
        });
    }
}

impl Member {
    /// A client that has joined nothing. What is assigned comes by the channel.
    pub(crate) fn new(
        cluster: &Cluster,
        group: &str,
        topic: &str,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Assigned>), KafkaError> {
        let (sender, assigned) = mpsc::unbounded_channel();
        let callbacks = Callbacks {
            assigned: sender,
            here: Mutex::default(),
        };
        let config = cluster.consumer(group, topic);
        let made = StreamConsumer::from_config_and_context(&config, callbacks);
        let consumer = made.map_err(|error| KafkaError::of(CANNOT_BE_MADE, error))?;
        let client = Client {
            consumer: Some(Arc::new(consumer)),
            questions: TaskTracker::new(),
            turns: Arc::new(Semaphore::new(QUESTIONS)),
            left: CancellationToken::new(),
        };
        Ok((Self(Arc::new(client)), assigned))
    }

    /// Joins the group for this topic: from now on somebody has to [poll](Self::poll).
    pub(crate) fn join(&self, topic: &str) -> Result<(), KafkaError> {
        let joined = self.client().subscribe(&[topic]);
        joined.map_err(|error| KafkaError::of("the topic cannot be subscribed to", error))
    }

    fn client(&self) -> &Arc<StreamConsumer<Callbacks>> {
        let consumer = self.0.consumer.as_ref();
        consumer.expect("only `drop` takes it")
    }

    /// Keeps the group's membership, for ever; an error if the client cannot go on.
    pub(crate) async fn poll(&self, topic: &str, health: &HandlerHealth) -> KafkaError {
        tokio::select! {
            error = self.receive(topic, health) => error,
            never = self.look_again(topic, health) => match never {},
        }
    }

    async fn receive(&self, topic: &str, health: &HandlerHealth) -> KafkaError {
        loop {
            match self.client().recv().await {
                Ok(stray) => self.read_anew(&stray),
                Err(error) => {
                    if let Some((_, reason)) = self.client().client().fatal_error() {
                        return KafkaError::new(reason);
                    }
                    tracing::warn!(topic, %error, "the Kafka client has lost what it needs; it goes on trying");
                    health.set_cut_off(topic, passes(&error), error.to_string());
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Notices that what the client had lost is there again. What kept it out of its group is over when the group gives
    /// it partitions; the client tells of it only once.
    async fn look_again(&self, topic: &str, health: &HandlerHealth) -> Infallible {
        let consumer = self.client();
        loop {
            sleep(LOOK).await;
            let Some(was_away) = health.is_cut_off(topic) else {
                continue;
            };
            let is_back = if was_away {
                matches!(self.knows(topic).await, Ok(true))
            } else {
                consumer
                    .assignment()
                    .is_ok_and(|assigned| assigned.count() > 0)
            };
            if is_back {
                health.set_reached(topic);
            }
        }
    }

    /// A record that came by another way than its partition's: that is read anew.
    fn read_anew(&self, message: &BorrowedMessage<'_>) {
        use rdkafka::Message as _;
        let place = (Arc::from(message.topic()), message.partition());
        tracing::warn!(
            topic = message.topic(),
            partition = message.partition(),
            "a record came outside of its partition: that is read anew"
        );
        let callbacks = self.client().context();
        let mut here = callbacks
            .here
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = here.get_mut(&place) {
            before.cancel();
            let revoked = CancellationToken::new();
            *before = revoked.clone();
            let _ = callbacks.assigned.send(Assigned { place, revoked });
        }
    }

    /// What the partition delivers from now on.
    pub(crate) fn queue(&self, (topic, partition): &Place) -> Option<Queue> {
        self.client().split_partition_queue(topic, *partition)
    }

    /// `refused` says what could not be done, if it could not.
    async fn ask<T: Send + 'static>(
        &self,
        refused: &str,
        ask: impl FnOnce(&StreamConsumer<Callbacks>) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, KafkaError> {
        let (member, question) = (self.clone(), self.0.questions.token());
        let turn = Arc::clone(&self.0.turns).acquire_owned().await;
        let (sender, answer) = oneshot::channel();
        // None of the runtime's threads: that would keep the runtime from ending until Kafka answers.
        let thread = thread::Builder::new().name("idem-kafka".to_owned());
        let asking = thread.spawn(move || {
            let asked = ask(member.client());
            drop(turn);
            drop(member);
            drop(question);
            // Nobody waits for the answer of a question that was dropped.
            let _ = sender.send(asked);
        });
        asking
            .map_err(|error| KafkaError::new(format!("{refused}: no thread can ask: {error}")))?;
        let asked = answer.await;
        let asked = asked.map_err(|_| KafkaError::new("the client has panicked"))?;
        asked.map_err(|error| KafkaError::of(refused, error))
    }

    /// The first offset that is there, and the one that the next record will have.
    ///
    /// Two questions: the client's own call for both (`fetch_watermarks` in 2.12) may tell the end as the beginning, too, if
    /// only the beginning could not be asked. All records would be passed.
    pub(crate) async fn ends(&self, place: &Place) -> Result<(u64, u64), KafkaError> {
        tokio::try_join!(
            self.end(place, Offset::Beginning),
            self.end(place, Offset::End)
        )
    }

    async fn end(&self, place: &Place, which: Offset) -> Result<u64, KafkaError> {
        // In Kafka's protocol the two are times, too: earlier and later than all others.
        let list = list(place, which);
        let ask = move |consumer: &StreamConsumer<_>| consumer.offsets_for_times(list, ANSWER);
        let end = found(UNKNOWN_ENDS, &self.ask(UNKNOWN_ENDS, ask).await?)?;
        end.ok_or_else(|| KafkaError::new(UNKNOWN_ENDS.to_owned()))
    }

    /// What the group has committed to Kafka, if anything.
    pub(crate) async fn committed(&self, place: &Place) -> Result<Option<u64>, KafkaError> {
        let list = list(place, Offset::Invalid);
        let ask = move |consumer: &StreamConsumer<_>| consumer.committed_offsets(list, ANSWER);
        found(UNKNOWN_COMMIT, &self.ask(UNKNOWN_COMMIT, ask).await?)
    }

    /// The first offset of a record that is as young, if there is one.
    pub(crate) async fn at(
        &self,
        place: &Place,
        time: SystemTime,
    ) -> Result<Option<u64>, KafkaError> {
        let since = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let list = list(place, Offset::Offset(millis));
        let ask = move |consumer: &StreamConsumer<_>| consumer.offsets_for_times(list, ANSWER);
        found_at(millis, &self.ask(UNKNOWN_TIME, ask).await?)
    }

    /// Goes to this offset, and delivers from there on.
    pub(crate) async fn read_from(&self, place: &Place, mark: u64) -> Result<(), KafkaError> {
        let at = Offset::Offset(i64::try_from(mark).unwrap_or(i64::MAX));
        let target = list(place, at);
        let ask = move |consumer: &StreamConsumer<_>| {
            let sought = consumer.seek_partitions(target, ANSWER)?;
            sought
                .elements()
                .iter()
                .try_for_each(TopicPartitionListElem::error)
        };
        self.ask(UNREADABLE, ask).await?;
        let resumed = self.client().resume(&list(place, at));
        resumed.map_err(|error| KafkaError::of(UNREADABLE, error))
    }

    pub(crate) fn pause(&self, place: &Place) {
        // It was taken away, if this fails.
        let _ = self.client().pause(&list(place, Offset::Invalid));
    }

    /// Tells Kafka where the group is: for those who look there.
    pub(crate) fn commit(&self, place: &Place, mark: u64) {
        let Ok(mark) = i64::try_from(mark) else {
            return;
        };
        let list = list(place, Offset::Offset(mark));
        if let Err(error) = self.client().commit(&list, CommitMode::Async) {
            tracing::debug!(%error, "the position was not committed to Kafka");
        }
    }

    /// Whether there is such a topic.
    pub(crate) async fn knows(&self, topic: &str) -> Result<bool, KafkaError> {
        let topic = topic.to_owned();
        let ask = move |consumer: &StreamConsumer<_>| {
            let metadata = consumer.fetch_metadata(Some(&topic), ANSWER)?;
            let named = metadata.topics().iter().find(|found| found.name() == topic);
            match named
                .and_then(MetadataTopic::error)
                .map(RDKafkaErrorCode::from)
            {
                None => Ok(named.is_some()),
                Some(
                    RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic,
                ) => Ok(false),
                Some(other) => Err(ClientError::MetadataFetch(other)),
            }
        };
        self.ask("Kafka does not tell of the topic", ask).await
    }

    /// Waits until all that Kafka was asked is answered. Nothing is to be asked any more.
    pub(crate) async fn answered(&self) {
        self.0.questions.close();
        self.0.questions.wait().await;
    }

    /// Leaves the group, when nobody else has it any more, and what Kafka was asked is answered.
    pub(crate) async fn leave(self) {
        let left = self.0.left.clone();
        drop(self);
        left.cancelled().await;
    }
}

fn list((topic, partition): &Place, offset: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    // No offset that is made here is refused.
    let _ = list.add_partition_offset(topic, *partition, offset);
    list
}

/// The offset that the client has put into the list, if there is one.
fn found(refused: &str, list: &TopicPartitionList) -> Result<Option<u64>, KafkaError> {
    let elements = list.elements();
    let Some(element) = elements.first() else {
        return Ok(None);
    };
    let error = element.error();
    error.map_err(|error| KafkaError::of(refused, error))?;
    Ok(match element.offset() {
        Offset::Offset(raw) => u64::try_from(raw).ok(),
        _ => None,
    })
}

/// The offset that the client has put where this time was, if there is one.
fn found_at(millis: i64, list: &TopicPartitionList) -> Result<Option<u64>, KafkaError> {
    let found = found(UNKNOWN_TIME, list)?;
    // It leaves the time there if the answer lacks the partition. That of 1970 is the first offset, too.
    if millis > 0 && found == u64::try_from(millis).ok() {
        return Err(KafkaError::new(UNKNOWN_TIME));
    }
    Ok(found)
}

/// Whether the client goes on by itself after this.
pub(crate) fn passes(error: &ClientError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::AllBrokersDown
                | Code::BrokerTransportFailure
                | Code::Resolve
                | Code::OperationTimedOut
                | Code::MessageTimedOut
                | Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
        )
    )
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;
    use tokio::time::{Instant, timeout};

    use super::*;

    /// A group waits for a member that has not left until its session times out.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_member_has_left_when_its_last_question_is_answered() {
        const SLOW: Duration = Duration::from_secs(2);
        let mock = MockCluster::new(1).unwrap();
        mock.create_topic("postings", 1, 1).unwrap();
        let cluster = Cluster::new(mock.bootstrap_servers());
        let (member, _assigned) = Member::new(&cluster, "ledger", "postings").unwrap();
        let place = (Arc::from("postings"), 0);
        member.ends(&place).await.unwrap();
        mock.broker_round_trip_time(1, SLOW).unwrap();
        let asked = Instant::now();
        // Whoever has asked gives up waiting.
        let soon = timeout(Duration::from_millis(50), member.ends(&place)).await;
        assert!(soon.is_err(), "{soon:?}");
        member.leave().await;
        assert!(asked.elapsed() >= SLOW, "{:?}", asked.elapsed());
    }

    #[test]
    fn a_time_that_was_not_answered_is_no_offset() {
        let millis = 1_700_000_000_000;
        let found = |offset| found_at(millis, &list(&(Arc::from("postings"), 0), offset)).ok();
        assert_eq!(found(Offset::Offset(millis)), None);
        assert_eq!(found(Offset::Offset(7)), Some(Some(7)));
        // No record is as young.
        assert_eq!(found(Offset::End), Some(None));
    }

    #[test]
    fn a_partition_that_is_assigned_again_is_taken_from_whoever_had_it() {
        let (sender, mut assigned) = mpsc::unbounded_channel();
        let callbacks = Callbacks {
            assigned: sender,
            here: Mutex::default(),
        };
        let partitions = |numbers: &[i32]| {
            let mut partitions = TopicPartitionList::new();
            for number in numbers {
                partitions.add_partition("postings", *number);
            }
            partitions
        };
        callbacks.note_assigned(&partitions(&[0, 1]));
        callbacks.note_assigned(&partitions(&[1]));
        let tokens: Vec<_> = std::iter::from_fn(|| assigned.try_recv().ok())
            .map(|Assigned { place, revoked }| (place.1, revoked))
            .collect();
        let revoked = || -> Vec<_> {
            let all = tokens.iter();
            all.map(|(number, revoked)| (*number, revoked.is_cancelled()))
                .collect()
        };
        assert_eq!(revoked(), [(0, false), (1, true), (1, false)]);
        callbacks.note_revoked(&partitions(&[0]));
        assert_eq!(revoked(), [(0, true), (1, true), (1, false)]);
        // Nobody has it any more.
        callbacks.note_revoked(&partitions(&[0]));
        callbacks.note_revoked(&partitions(&[1]));
        assert_eq!(revoked(), [(0, true), (1, true), (1, true)]);
    }
}
