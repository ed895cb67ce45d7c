//! Who takes part.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{super::StoreKind, QueueKind};

/// A consumer that is measured.
#[derive(
    Clone, Copy, Debug, Deserialize, Serialize, ValueEnum, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// By hand with lapin: one message after the other, each acknowledged by itself.
    LapinAckEach,
    /// By hand with lapin: a task per message, each acknowledged by itself.
    LapinTaskEach,
    /// By hand with lapin: the broker forgets a message when it has sent it.
    LapinNoAck,
    /// By hand with lapin: what has arrived, up to 256 messages, one after the other, and one acknowledgement for all.
    LapinAckTogether,
    /// By hand with amqprs: one message after the other, each acknowledged by itself.
    AmqprsAckEach,
    /// Deduplicated by hand: `GET`, `SET NX EX`, `MULTI` with two `SET`, in a task per message.
    NaiveRedis,
    /// Deduplicated by hand: `SELECT`, `INSERT`, `UPDATE`, in a task per message.
    NaivePostgres,
    /// Deduplicated by hand: a transaction per message with the row of the key and one of business.
    HandwrittenPostgresAtomic,
    /// The same, with a row for an event, which a task polls for (`SKIP LOCKED`, up to 100 at a time) and publishes,
    /// each confirmed before the next one.
    HandwrittenPostgresOutbox,
    /// Deduplicated by hand: the same in a SQLite file, `BEGIN IMMEDIATE` per message on one connection.
    HandwrittenSqliteAtomic,
    /// Deduplicated by hand in a SQLite file, as many messages as wait in one transaction, up to 64, each of them in a
    /// savepoint of its own.
    HandwrittenSqliteSavepoints,
    /// Deduplicated by hand, as many messages as wait in one transaction, up to 64: the rows of their keys with one
    /// statement, those of business with another.
    #[value(name = "handwritten-postgres-setwise-64")]
    #[serde(rename = "handwritten-postgres-setwise-64")]
    HandwrittenPostgresSetwise64,
    /// The same with up to 256 messages.
    HandwrittenPostgresSetwise,
    /// The same with up to 64 messages, each of them in a savepoint of its own.
    HandwrittenPostgresSavepoints,
    /// By hand: a stream from where the database says, what has arrived in one transaction, up to 256 messages: the rows
    /// of business with one statement, and the offset to go on from with another.
    HandwrittenPostgresOffset,
    /// mq-bridge, keys in the process's memory. Takes part if it is named, as the next two.
    MqBridgeMemory,
    /// mq-bridge, keys in a SQLite file.
    MqBridgeSqlite,
    /// mq-bridge, keys in PostgreSQL.
    MqBridgePostgres,
    /// idem, keys in the process's memory.
    IdemMemory,
    /// The same; the orders of one customer, of a thousand, run one after the other.
    IdemMemoryOrdered,
    /// idem, keys in a SQLite file.
    IdemSqlite,
    /// idem, keys in Redis.
    IdemRedis,
    /// idem, keys in PostgreSQL, leased.
    IdemPostgres,
    /// The same; the orders of one customer, of a thousand, run one after the other.
    IdemPostgresOrdered,
    /// idem, keys in PostgreSQL, atomic: the key and one row of business are committed together.
    IdemPostgresAtomic,
    /// The same, and an event is published by the outbox. Takes part if it is named, as all that publish.
    IdemPostgresAtomicOutbox,
    /// The same, with up to 32 messages in one transaction.
    IdemPostgresGrouped,
    /// idem, keys in a SQLite file, atomic.
    IdemSqliteAtomic,
    /// The same with an event.
    IdemSqliteAtomicOutbox,
    /// idem, keys in the process's memory, up to 256 messages in one call of the handler.
    IdemMemoryBatch,
    /// The same, keys in a SQLite file, atomic.
    IdemSqliteBatch,
    /// The same with an event for each message.
    IdemSqliteBatchOutbox,
    /// The same, keys in Redis.
    IdemRedisBatch,
    /// The same, keys in PostgreSQL, atomic.
    IdemPostgresBatch,
    /// The same with an event for each message.
    IdemPostgresBatchOutbox,
    /// idem, a stream's mark in PostgreSQL instead of a key for each message, up to 256 messages in one transaction.
    IdemPostgresByMark,
}

impl Contestant {
    /// The one that all others are compared with: what everyone writes first.
    pub(crate) const BASELINE: Self = Self::LapinAckEach;

    /// As it is written on a command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        value.get_name().to_owned()
    }

    /// Whether it is to run each order once, however many copies of its message there are.
    pub fn deduplicates(self) -> bool {
        !matches!(
            self,
            Self::LapinAckEach
                | Self::LapinTaskEach
                | Self::LapinNoAck
                | Self::LapinAckTogether
                | Self::AmqprsAckEach
        )
    }

    /// Whether its program is built apart, which takes minutes.
    pub(crate) fn is_guest(self) -> bool {
        matches!(
            self,
            Self::MqBridgeMemory | Self::MqBridgeSqlite | Self::MqBridgePostgres
        )
    }

    /// Whether it publishes an event for each order.
    pub fn publishes(self) -> bool {
        matches!(
            self,
            Self::HandwrittenPostgresOutbox
                | Self::IdemPostgresAtomicOutbox
                | Self::IdemPostgresBatchOutbox
                | Self::IdemSqliteAtomicOutbox
                | Self::IdemSqliteBatchOutbox
        )
    }

    /// Why it cannot consume such a queue, if it cannot.
    pub fn cannot(self, queue: QueueKind) -> Option<&'static str> {
        match queue {
            QueueKind::Stream => {
                let reads = self.knows_by_offset()
                    || matches!(
                        self,
                        Self::LapinAckEach
                            | Self::LapinAckTogether
                            | Self::IdemMemory
                            | Self::IdemMemoryBatch
                            | Self::IdemSqlite
                            | Self::IdemSqliteAtomic
                            | Self::IdemSqliteBatch
                            | Self::IdemRedis
                            | Self::IdemRedisBatch
                            | Self::IdemPostgres
                            | Self::IdemPostgresAtomic
                            | Self::IdemPostgresBatch
                    );
                (!reads).then_some("which consumes queues")
            }
            QueueKind::Quorum if self.is_guest() => {
                Some("which declares its queue itself, as a classic one")
            }
            _ => self.knows_by_offset().then_some("which reads a stream"),
        }
    }

    /// Whether it can consume such a queue.
    pub(crate) fn takes(self, queue: QueueKind) -> bool {
        self.cannot(queue).is_none()
    }

    /// Whether it takes a message for a copy by its place in a stream.
    fn knows_by_offset(self) -> bool {
        matches!(
            self,
            Self::HandwrittenPostgresOffset | Self::IdemPostgresByMark
        )
    }

    /// The store whose server, or file, it is given.
    pub fn server(self) -> Option<StoreKind> {
        match self {
            Self::NaiveRedis | Self::IdemRedis | Self::IdemRedisBatch => Some(StoreKind::Redis),
            Self::NaivePostgres
            | Self::HandwrittenPostgresAtomic
            | Self::HandwrittenPostgresOutbox
            | Self::MqBridgePostgres
            | Self::IdemPostgres
            | Self::IdemPostgresOrdered
            | Self::IdemPostgresAtomic
            | Self::IdemPostgresAtomicOutbox
            | Self::IdemPostgresBatchOutbox
            | Self::IdemPostgresGrouped
            | Self::IdemPostgresBatch
            | Self::IdemPostgresByMark
            | Self::HandwrittenPostgresOffset
            | Self::HandwrittenPostgresSetwise64
            | Self::HandwrittenPostgresSetwise
            | Self::HandwrittenPostgresSavepoints => Some(StoreKind::Postgres),
            Self::HandwrittenSqliteAtomic
            | Self::HandwrittenSqliteSavepoints
            | Self::IdemSqliteAtomic
            | Self::IdemSqliteAtomicOutbox
            | Self::IdemSqliteBatch
            | Self::IdemSqliteBatchOutbox => Some(StoreKind::Sqlite),
            _ => None,
        }
    }
}
