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
    /// Deduplicated by hand, as many messages as wait in one transaction, up to 64: the rows of their keys with one
    /// statement, those of business with another.
    #[value(name = "handwritten-postgres-setwise-64")]
    #[serde(rename = "handwritten-postgres-setwise-64")]
    HandwrittenPostgresSetwise64,
    /// The same with up to 256 messages.
    HandwrittenPostgresSetwise,
    /// The same with up to 64 messages, each of them in a savepoint of its own.
    HandwrittenPostgresSavepoints,
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
            Self::LapinAckEach | Self::LapinTaskEach | Self::LapinNoAck | Self::AmqprsAckEach
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

    /// Whether it can consume such a queue. mq-bridge declares its queue itself, without
    /// arguments, and a broker refuses that for a quorum queue.
    pub(crate) fn takes(self, queue: QueueKind) -> bool {
        queue == QueueKind::Classic || !self.is_guest()
    }

    /// The store whose server, or file, it is given.
    pub(crate) fn server(self) -> Option<StoreKind> {
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
            | Self::HandwrittenPostgresSetwise64
            | Self::HandwrittenPostgresSetwise
            | Self::HandwrittenPostgresSavepoints => Some(StoreKind::Postgres),
            Self::HandwrittenSqliteAtomic
            | Self::IdemSqliteAtomic
            | Self::IdemSqliteAtomicOutbox
            | Self::IdemSqliteBatch
            | Self::IdemSqliteBatchOutbox => Some(StoreKind::Sqlite),
            _ => None,
        }
    }
}
