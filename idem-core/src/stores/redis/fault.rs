//! What an error of Redis means for the one who asked.

use std::{error::Error, num::NonZeroUsize, time::Duration};

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

use crate::{message::Key, store::StoreError, stores::batcher::TaskEnded};

/// What is said in front of the server's own words, by what is found in them. In scripts, old
/// servers put the code of an error into its text.
const EXPLAINED: [(&str, &str); 14] = [
    // Before the codes, which are in the same words.
    (
        SENTINELS_REFUSE,
        "the sentinels have passwords of their own: write `redis+sentinel://…/NAME?sentinel_password=PASSWORD`, and \
         `&sentinel_user=USER` if it is not the default user's",
    ),
    (
        "OOM",
        "redis has reached its `maxmemory` and refuses writes: give it more, or shorten the retention",
    ),
    (
        READONLY,
        "this redis is a replica, which takes no writes: connect to the primary",
    ),
    ("LOADING", "redis is still loading its data"),
    ("MASTERDOWN", "this redis is a replica without its primary"),
    (
        "CLUSTERDOWN",
        "the redis cluster has slots that no node serves",
    ),
    (
        "TRYAGAIN",
        "the redis cluster is moving the record to another node",
    ),
    ("BUSY", "redis is busy with somebody else's script"),
    (
        "MISCONF",
        "redis cannot save its data to disk, and refuses writes until it can",
    ),
    (
        "NOREPLICAS",
        "redis has fewer replicas than its `min-replicas-to-write`, and refuses writes",
    ),
    (
        "NOAUTH",
        "redis asks for a password: write `redis://:PASSWORD@HOST` or `redis://USER:PASSWORD@HOST`",
    ),
    ("WRONGPASS", "redis does not know this user and password"),
    ("NOPERM", NOT_PERMITTED),
    (NOT_BY_SCRIPT, NOT_PERMITTED),
];

/// Said by `sentinel`, with the sentinel's own words behind it.
pub(super) const SENTINELS_REFUSE: &str = "a sentinel refuses this user or password";

/// A script may not run a command, or not on this key. Old servers say it without a code.
const NOT_BY_SCRIPT: &str = "user executing the script";

/// The server is a replica.
const READONLY: &str = "READONLY";

const NOT_PERMITTED: &str = "redis does not let this user run `EVAL`, `EVALSHA` and what the store's scripts run on \
    these keys: `TIME`, `GET`, `SET`, `GETRANGE`, `SETRANGE`, `DEL`, `PEXPIREAT`, `SADD`, `SCARD` and `SISMEMBER`; an \
    operator also `SCAN`, `LRANGE`, `RPUSH`, `LTRIM` and `PEXPIRE`";

/// Words of an error that is about this one record.
const UNREADABLE: [&str; 3] = ["WRONGTYPE", "UNREADABLE", "data string too short"];

/// Words of an error about this user. A server that takes no writes for now (`OOM`, `MISCONF`, `NOREPLICAS`,
/// `READONLY`, `LOADING`) refuses everybody, and is away like one that does not answer.
const REFUSALS: [&str; 4] = ["NOAUTH", "WRONGPASS", "NOPERM", NOT_BY_SCRIPT];

/// Why a call has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Fault {
    /// The driver's error. Its words are in this message: as a source of its own, it would be told twice.
    #[error("{0}")]
    Redis(RedisError),
    #[error(
        "{confirmed} replicas have confirmed within {within:?}, and {replicas} are asked for: the \
         write may be lost in a fail-over"
    )]
    TooFewReplicas {
        confirmed: usize,
        replicas: NonZeroUsize,
        within: Duration,
    },
    #[error(transparent)]
    TaskEnded(#[from] TaskEnded),
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl Fault {
    /// The server is silent.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_timeout())
    }

    /// The error for the caller who asked about this key.
    pub(super) fn of_key(self, key: &Key) -> StoreError {
        match self {
            Self::Redis(error) if is_of_record(&error) => StoreError::Corrupt {
                key: key.to_string(),
                source: Box::new(Self::Redis(error)),
            },
            Self::Redis(error) if is_refusal(&error) => StoreError::Refused(explained(error)),
            Self::Redis(error) => StoreError::Unavailable(explained(error)),
            // Not away: this server has carried the call out, and may know the key for done. Whoever fails open must
            // not run what it knows.
            fault @ Self::TooFewReplicas { .. } => StoreError::Refused(Box::new(fault)),
            Self::TaskEnded(ended) => ended.into(),
        }
    }
}

/// What the server said, and what it means.
#[derive(Debug, thiserror::Error)]
#[error("{meaning}")]
struct Explained {
    meaning: &'static str,
    source: Fault,
}

/// The error with its meaning, if that is not in its own words.
pub(super) fn explained(error: RedisError) -> Box<dyn Error + Send + Sync> {
    let explanation = EXPLAINED.iter().find(|(word, _)| says(&error, word));
    match explanation {
        Some((_, meaning)) => Box::new(Explained {
            meaning,
            source: error.into(),
        }),
        None => Box::new(Fault::from(error)),
    }
}

/// The server is there, and does not do this for this user before somebody changes something.
pub(super) fn is_refusal(error: &RedisError) -> bool {
    REFUSALS.iter().any(|word| says(error, word))
}

/// The server is fine, and this one record cannot be read.
pub(super) fn is_of_record(error: &RedisError) -> bool {
    error.kind() == ErrorKind::UnexpectedReturnType
        || UNREADABLE.iter().any(|word| says(error, word))
}

/// The answer, unless it is an error. One that is inside concerns one call of many, unless it says
/// that this server carries out none.
pub(super) fn checked(answer: Value) -> RedisResult<Value> {
    match answer {
        Value::ServerError(error) => Err(error.into()),
        Value::Array(answers) => match answers.iter().find_map(refused_writes) {
            Some(error) => Err(error),
            None => Ok(Value::Array(answers)),
        },
        answer => Ok(answer),
    }
}

/// The answers to several commands, unless one says that this server carries none out.
pub(super) fn unless_a_replica(answers: Vec<Value>) -> RedisResult<Vec<Value>> {
    match answers.iter().find_map(refused_writes) {
        Some(error) => Err(error),
        None => Ok(answers),
    }
}

fn refused_writes(answer: &Value) -> Option<RedisError> {
    match answer {
        Value::ServerError(error) => {
            Some(RedisError::from(error.clone())).filter(|error| says(error, READONLY))
        }
        _ => None,
    }
}

/// What is no answer of the script.
pub(super) fn not_understood() -> RedisError {
    let text = "the script's answer cannot be understood";
    (ErrorKind::UnexpectedReturnType, text).into()
}

/// The server does not have the script: it was restarted, flushed or replaced.
pub(super) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// The server knows this user, and does not let him run this command.
pub(super) fn is_not_permitted(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
}

/// The server is there, and answers `PING` with this as long as it takes no writes. Of the other reasons only a write
/// tells.
pub(super) fn is_for_now(error: &RedisError) -> bool {
    ["MISCONF", "LOADING", "MASTERDOWN"]
        .iter()
        .any(|word| says(error, word))
}

/// The connection is of no use any more, or leads to a server that has become a replica: its
/// name may lead to the primary by now.
pub(super) fn is_of_connection(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_timeout() || says(error, READONLY)
}

/// The connection broke, perhaps long ago: asking once more over a new one may do.
pub(super) fn is_broken_connection(error: &RedisError) -> bool {
    error.is_connection_dropped() && !error.is_connection_refusal()
}

fn says(error: &RedisError, word: &str) -> bool {
    error.code() == Some(word) || error.detail().is_some_and(|text| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(error: &str) -> Value {
        let text = format!("*2\r\n:1\r\n-{error}\r\n");
        redis::parse_redis_value(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_error_inside_concerns_one_call_unless_the_server_is_a_replica() {
        assert!(checked(answers("WRONGTYPE not a string")).is_ok());
        let error = checked(answers("READONLY not here")).unwrap_err();
        assert!(is_of_connection(&error));
    }
}
