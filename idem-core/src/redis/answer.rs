//! What the scripts answer.

use std::time::Duration;

use redis::{RedisError, RedisResult, Value, from_redis_value};

use crate::{Claim, FencingToken, Key, Lease, Outcome, Write};

/// The answer of `claim.lua`.
pub(super) fn claim(answer: Value, key: &Key) -> RedisResult<Claim> {
    let Value::Array(fields) = answer else {
        return Err(not_understood());
    };
    let mut fields = fields.into_iter();
    let word: String = next(&mut fields)?;
    match word.as_str() {
        "acquired" => {
            let token = FencingToken::new(next(&mut fields)?);
            let attempt = next(&mut fields)?;
            let in_doubt = next::<u8>(&mut fields)? == 1;
            let lease = Lease::new(key.clone(), token, attempt, in_doubt);
            Ok(Claim::Acquired(lease))
        }
        "held" => Ok(Claim::Held {
            remaining: remaining(&mut fields)?,
        }),
        "completed" => Ok(Claim::Completed {
            remaining: remaining(&mut fields)?,
            outcome: Outcome::new(next::<Vec<u8>>(&mut fields)?),
        }),
        "reused" => Ok(Claim::KeyReused),
        "quarantined" => Ok(Claim::Quarantined),
        _ => Err(not_understood()),
    }
}

/// The answer of the other scripts.
pub(super) fn write(answer: &Value) -> RedisResult<Write> {
    match answer {
        Value::Int(1) => Ok(Write::Applied),
        Value::Int(0) => Ok(Write::Fenced),
        _ => Err(not_understood()),
    }
}

fn remaining(fields: &mut impl Iterator<Item = Value>) -> RedisResult<Duration> {
    next(fields).map(Duration::from_micros)
}

fn next<T: redis::FromRedisValue>(fields: &mut impl Iterator<Item = Value>) -> RedisResult<T> {
    let field = fields.next().ok_or_else(not_understood)?;
    Ok(from_redis_value(field)?)
}

fn not_understood() -> RedisError {
    let text = "the script's answer cannot be understood";
    (redis::ErrorKind::UnexpectedReturnType, text).into()
}
