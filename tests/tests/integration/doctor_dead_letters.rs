//! What the doctor finds about dead-letter queues, and what keeps a worker from starting.

use idem_amqp::{
    MemoryStore, Queue, RunError, Worker, executor::ExecutionKind as Kind, store::Severity,
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, QUICK, dead},
    running::{Running, assert_balance},
    script::{Script, charge},
};
use lapin::{
    Connection, ConnectionProperties,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};

use crate::{
    dead_letters::rejecting,
    doctor::{codes, doctor, number, text, why_unfit},
};

/// How a dead-letter queue that loses letters is declared, and what the doctor calls that.
struct Weak {
    code: &'static str,
    durable: bool,
    auto_delete: bool,
    arguments: FieldTable,
}

impl Weak {
    fn by<const N: usize>(code: &'static str, arguments: [(&str, AMQPValue); N]) -> Self {
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert(name.into(), value);
        }
        Self {
            code,
            durable: true,
            auto_delete: false,
            arguments: table,
        }
    }

    /// All of them that the broker knows.
    fn all(broker: Version) -> Vec<Self> {
        let quorum = || ("x-queue-type", text("quorum"));
        let mut all = vec![
            Self {
                auto_delete: true,
                ..Self::by("dead-letters-auto-delete", [])
            },
            Self::by("dead-letters-expires", [("x-expires", number(3_600_000))]),
            Self::by(
                "dead-letters-message-ttl",
                [("x-message-ttl", number(1000))],
            ),
            Self::by("dead-letters-max-length", [("x-max-length", number(1))]),
            Self::by(
                "dead-letters-max-length",
                [("x-max-length-bytes", number(1000))],
            ),
            Self::by(
                "dead-letters-delivery-limit",
                [quorum(), ("x-delivery-limit", number(3))],
            ),
            Self::by("dead-letters-stream", [("x-queue-type", text("stream"))]),
        ];
        // Later ones declare no queue that several connections use and a restart loses.
        if broker < Version::new(4, 3) {
            all.push(Self {
                durable: false,
                ..Self::by("dead-letters-transient", [])
            });
        }
        all
    }

    async fn declare(&self, bed: &Bed, name: &str) {
        let connection = Connection::connect(bed.url(), ConnectionProperties::default());
        let connection = connection.await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions {
            durable: self.durable,
            auto_delete: self.auto_delete,
            ..QueueDeclareOptions::default()
        };
        let declared = channel.queue_declare(name.into(), options, self.arguments.clone());
        declared.await.unwrap();
        connection.close(200, "done".into()).await.unwrap();
    }
}

fn start(bed: &Bed, queue: Queue) -> Running {
    let worker = Worker::builder(MemoryStore::new()).state(rejecting());
    bed.start(worker.consume::<charge>(queue))
}

/// A dead-letter queue drops letters by age, length, a declared delivery limit, or restart, is deleted unused, or is a
/// stream.
///
/// - does: does not start, unless that is accepted
#[tokio::test]
async fn a_dead_letter_queue_that_loses_letters_keeps_a_worker_from_starting() {
    let bed = Bed::bare().await;
    bed.declare_foreign(bed.name(), FieldTable::default()).await;
    for weak in Weak::all(bed.broker().version()) {
        let dead = dead(bed.name());
        weak.declare(&bed, &dead).await;
        let existing = || Queue::existing(bed.name());
        let found = why_unfit(&bed, existing()).await;
        assert_eq!(codes(&found), [(Severity::Error, weak.code)]);
        assert!(found[0].text.contains(&dead), "{found:?}");
        assert_eq!(doctor(bed.url(), existing()).await, found);
        let accepted = doctor(bed.url(), existing().accept(weak.code)).await;
        assert_eq!(codes(&accepted), [(Severity::Note, weak.code)]);
        bed.delete(&dead).await;
    }
    bed.delete(bed.name()).await;
}

/// Shares the promise of `doctor_dead_letters::a_dead_letter_queue_that_loses_letters_keeps_a_worker_from_starting`.
#[tokio::test]
async fn a_dead_letter_queue_whose_losses_are_accepted_is_used() {
    let bed = Bed::bare().await;
    bed.declare_foreign(bed.name(), FieldTable::default()).await;
    let weak = Weak::by("dead-letters-expires", [("x-expires", number(3_600_000))]);
    weak.declare(&bed, &dead(bed.name())).await;
    let worker = start(
        &bed,
        Queue::existing(bed.name()).accept(weak.code).policy(QUICK),
    );
    bed.order("a").await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A dead-letter queue is a quorum queue without a declared delivery limit, on RabbitMQ 4, which sets one of 20.
///
/// - does: reports an error; starts, because a policy may lift that limit
///
/// `RabbitMQ` 4 sets a limit where none was declared, and a policy may lift it.
#[tokio::test]
async fn a_delivery_limit_that_the_broker_sets_on_dead_letters_is_told_and_the_worker_starts() {
    let bed = Bed::bare().await;
    bed.declare_foreign(bed.name(), FieldTable::default()).await;
    let quorum = [("x-queue-type", text("quorum"))];
    let undeclared = Weak::by("dead-letters-delivery-limit", quorum);
    undeclared.declare(&bed, &dead(bed.name())).await;
    let existing = || Queue::existing(bed.name()).policy(QUICK);
    let error = [(Severity::Error, undeclared.code)];
    let told = if bed.broker().version() >= Version::new(4, 0) {
        &error[..]
    } else {
        &[]
    };
    assert_eq!(codes(&doctor(bed.url(), existing()).await), told);

    let worker = start(&bed, existing());
    bed.order("a").await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A declared queue names a dead-letter queue that drops letters.
///
/// - does: does not start: the broker refuses its declaration; the doctor says why
///
/// It is the broker that refuses it: the worker declares what it names.
#[tokio::test]
async fn a_declared_queue_gets_no_dead_letter_queue_that_loses_letters_and_the_doctor_says_so() {
    let bed = Bed::bare().await;
    let graveyard = bed.another("graveyard");
    for weak in Weak::all(bed.broker().version()) {
        weak.declare(&bed, &graveyard).await;
        let declared = || {
            let queue = if weak.arguments.contains_key("x-queue-type") {
                Queue::quorum(bed.name())
            } else {
                Queue::classic(bed.name())
            };
            queue.dead_letters(&graveyard)
        };
        let found = doctor(bed.url(), declared()).await;
        let told = ["declared-otherwise", weak.code].map(|code| (Severity::Error, code));
        assert_eq!(codes(&found), told);
        let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
        match bed
            .start(worker.consume::<charge>(declared()))
            .failed()
            .await
        {
            RunError::Topology(error) => {
                assert!(error.to_string().contains(&graveyard), "{error}");
            }
            other => panic!("{}: {other:?}", weak.code),
        }
        bed.delete(&graveyard).await;
        // It was declared before it was refused.
        bed.delete(bed.name()).await;
    }
}
