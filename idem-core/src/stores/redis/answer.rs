//! What the scripts answer.

use std::time::Duration;

use redis::{RedisResult, Value, from_redis_value};

use super::fault::not_understood;
use crate::{
    handler::{FencingToken, Outcome},
    message::Key,
    store::{Claim, Lease, OutOfPlace, Write, rules::sequence},
};

/// What `claim.lua` answers, or `session.lua` or `sequence.lua` in its place.
pub(super) fn claim(answer: Value, key: &Key) -> RedisResult<Claim> {
    let mut fields = match answer {
        Value::Int(token) => {
            let lease = Lease::new(key.clone(), FencingToken::new(token), 1, false);
            return Ok(Claim::Acquired(lease));
        }
        Value::Array(fields) => fields.into_iter(),
        _ => return Err(not_understood()),
    };
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
        "late" => Ok(OutOfPlace::Late.into()),
        "ahead" => Ok(Claim::OutOfPlace(OutOfPlace::Ahead {
            mark: next(&mut fields)?,
            window: next(&mut fields)?,
        })),
        "done" => Ok(sequence::done(remaining(&mut fields)?)),
        "stale" => Ok(OutOfPlace::Stale.into()),
        "expired" => Ok(OutOfPlace::SessionExpired.into()),
        "beyond" => Ok(Claim::OutOfPlace(OutOfPlace::BeyondWindow {
            window: next(&mut fields)?,
        })),
        _ => Err(not_understood()),
    }
}

/// What the others answer.
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
