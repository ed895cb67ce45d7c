//! The conformance suite under test: stores broken on purpose, each caught by named cases.

#[path = "model/call.rs"]
mod call;
#[path = "broken_stores/caught.rs"]
mod caught;
#[path = "broken_stores/claim.rs"]
mod claim;
#[path = "model/compare.rs"]
mod compare;
#[path = "model/drive.rs"]
mod drive;
#[path = "broken_stores/entity.rs"]
mod entity;
#[path = "broken_stores/flaw.rs"]
mod flaw;
#[path = "model/forgets.rs"]
mod forgets;
#[path = "broken_stores/group.rs"]
mod group;
#[path = "broken_stores/harness.rs"]
mod harness;
#[path = "broken_stores/noticed.rs"]
mod noticed;
#[path = "broken_stores/noticed_sequences.rs"]
mod noticed_sequences;
#[path = "broken_stores/noticed_sessions.rs"]
mod noticed_sessions;
#[path = "broken_stores/operator.rs"]
mod operator;
#[path = "model/oracle.rs"]
mod oracle;
#[path = "broken_stores/outbox.rs"]
mod outbox;
#[path = "broken_stores/record.rs"]
mod record;
#[path = "broken_stores/sequence.rs"]
mod sequence;
#[path = "broken_stores/session.rs"]
mod session;
#[path = "broken_stores/store.rs"]
mod store;
#[path = "broken_stores/stream.rs"]
mod stream;
#[path = "broken_stores/transaction.rs"]
mod transaction;
#[path = "broken_stores/write.rs"]
mod write;

use harness::{PlainHarness, ServerHarness};

// The store that the broken ones are made of passes every case.
idem_testing::conformance!(without_a_flaw; PlainHarness; Purge, Look, TransactionalLooks, OperatorStore, Durable, TransactionalStore, GroupStore, BatchStore, Outbox, RecordedByStore, SessionStore, SessionExpiry, DurableSessions, TransactionalSessions, SequenceStore, SequencePurge, DurableSequences, TransactionalSequences, StreamStore, DurableStreams, TransactionalStreams);
idem_testing::conformance!(without_a_flaw_on_a_server; ServerHarness; ServerClock);
