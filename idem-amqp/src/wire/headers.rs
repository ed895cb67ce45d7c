//! The headers that idem writes. What they say is short: all of a message's properties must fit into
//! one frame.

/// Why it was dead-lettered. On a message that is consumed, it marks a replay.
pub(crate) const REASON: &str = "idem-reason";
/// The last error, cut at 1 KiB.
pub(crate) const ERROR: &str = "idem-error";
/// How many attempts there were.
pub(crate) const ATTEMPT: &str = "idem-attempt";
/// The message's key, where it has one.
pub(crate) const KEY: &str = "idem-key";
/// The queue it was consumed from.
pub(crate) const QUEUE: &str = "idem-queue";
/// The partition of a super stream that it was read from, if it was: several have one queue to which they come back.
pub(crate) const PARTITION: &str = "idem-partition";
/// The exchange it was published to.
pub(crate) const EXCHANGE: &str = "idem-exchange";
/// The routing key it was published with.
pub(crate) const ROUTING_KEY: &str = "idem-routing-key";
/// Its time to live: taken off, so that a message that is kept for later does not expire.
pub(crate) const EXPIRATION: &str = "idem-expiration";
/// How often it has been to the retry ladder because of a conflict, since its last attempt.
pub(crate) const CONFLICTS: &str = "idem-conflicts";
/// When an attempt failed first: an AMQP timestamp, in seconds since 1970.
pub(crate) const FIRST_FAILURE: &str = "idem-first-failure";
/// When an attempt failed last.
pub(crate) const LAST_FAILURE: &str = "idem-last-failure";
/// That a header of the publisher's was too large to be carried over.
pub(crate) const HEADERS_CUT: &str = "idem-headers-cut";

/// On a copy of a letter that left the retry ladder, and found no queue: why the broker took it off
/// its rung. It has not ended.
pub(crate) const UNROUTED: &str = "idem-unrouted";

/// On a reply: whether it is repeated from memory. A boolean.
pub(crate) const REPLAYED: &str = "idem-replayed";
/// On a reply that is an error: its code.
pub(crate) const REFUSAL: &str = "idem-refusal";

/// On a refusal: that the request was delivered before, and may have been handled then. A boolean.
pub(crate) const REDELIVERED: &str = "idem-redelivered";

/// On a request of a session: the session's id. Its publisher's own, as the next two are.
pub(crate) const SESSION: &str = "idem-session";
/// Which of the session's requests it is.
pub(crate) const NUMBER: &str = "idem-number";
/// The lowest number whose answer the client still awaits.
pub(crate) const AWAITED: &str = "idem-awaited";

/// On a numbered message: in whose name it was published. Its publisher's own, as the next two are.
pub(crate) const PRODUCER: &str = "idem-producer";
/// What tells the publisher's streams apart.
pub(crate) const EPOCH: &str = "idem-epoch";
/// Which message of the stream it is.
pub(crate) const SEQUENCE: &str = "idem-sequence";

/// On a numbered message without a body: that its publisher has withdrawn what had the number. A boolean.
pub(crate) const WITHDRAWN: &str = "idem-withdrawn";

/// Those of messages that are consumed. A publisher's own header keeps its name, also one that begins like these.
const ALL: [&str; 14] = [
    REASON,
    ERROR,
    ATTEMPT,
    KEY,
    QUEUE,
    PARTITION,
    EXCHANGE,
    ROUTING_KEY,
    EXPIRATION,
    CONFLICTS,
    FIRST_FAILURE,
    LAST_FAILURE,
    HEADERS_CUT,
    UNROUTED,
];

/// What publishers write who wait for a direct reply; the broker puts their address in its place. A
/// channel that publishes it without waiting itself is closed.
pub(crate) const UNADDRESSED: &str = "amq.rabbitmq.reply-to";

/// Whether a header says where its message stands, in a session or in a sequence, or that it is withdrawn.
pub(crate) fn is_place(name: &str) -> bool {
    [
        SESSION, NUMBER, AWAITED, PRODUCER, EPOCH, SEQUENCE, WITHDRAWN,
    ]
    .contains(&name)
}

/// Whether a header is one of idem's.
pub(crate) fn is_ours(name: &str) -> bool {
    ALL.contains(&name)
}
