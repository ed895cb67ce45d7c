//! Reads what RabbitMQ says when it refuses a queue or an exchange.
//!
//! Its texts are the only place where it tells which argument differs, and which permission is missing. What is not
//! recognised, or was cut after 252 bytes, is no answer: it is passed on as it is. Only that a queue or an exchange is
//! missing is understood of a text that ends within its long name, too.

use crate::error::{Permission, TopologyObject, TopologyProblem as Problem};

/// What the broker's text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) object: TopologyObject,
    pub(super) name: String,
    pub(super) vhost: String,
    pub(super) problem: Problem,
}

/// Makes out the text of a channel that was closed with a 403, 404 or 406.
pub(super) fn read(text: &str) -> Option<Answer> {
    different(text)
        .or_else(|| missing(text))
        .or_else(|| forbidden(text))
}

fn different(text: &str) -> Option<Answer> {
    let Difference {
        argument,
        object,
        existing,
        declared,
    } = difference(text)?;
    let problem = Problem::Different {
        argument: argument.into(),
        existing: existing.map(|value| value.text),
        declared: declared.map(|value| value.text),
    };
    answer(object, problem)
}

/// One argument or property of an object that is not as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference<'a> {
    pub(crate) argument: &'a str,
    object: &'a str,
    pub(crate) existing: Option<Value>,
    declared: Option<Value>,
}

/// `PRECONDITION_FAILED - inequivalent arg 'A' for queue 'Q' in vhost 'V': received R but current is C`
pub(crate) fn difference(text: &str) -> Option<Difference<'_>> {
    let rest = text.strip_prefix("PRECONDITION_FAILED - inequivalent arg '")?;
    let (argument, rest) = rest.split_once("' for ")?;
    let (object, values) = rest.split_once(": received ")?;
    let (declared, existing) = values.split_once(" but current is ")?;
    Some(Difference {
        argument,
        object,
        existing: value(existing)?,
        declared: value(declared)?,
    })
}

/// `NOT_FOUND - no queue 'Q' in vhost 'V'`
fn missing(text: &str) -> Option<Answer> {
    answer(text.strip_prefix("NOT_FOUND - no ")?, Problem::Missing)
}

/// The same, cut within the name: it is known who was asked for.
pub(super) fn read_cut(text: &str, object: TopologyObject, name: &str) -> Option<Answer> {
    let is_missing = text.starts_with("NOT_FOUND - no ") && text.ends_with("...");
    is_missing.then(|| Answer {
        object,
        name: name.into(),
        vhost: String::new(),
        problem: Problem::Missing,
    })
}

/// `ACCESS_REFUSED - configure access to queue 'Q' in vhost 'V' refused for user 'U'`, before 3.11
/// without the first word of the sentence.
fn forbidden(text: &str) -> Option<Answer> {
    let rest = text.strip_prefix("ACCESS_REFUSED - ")?;
    let (permission, rest) = rest.split_once("access to ")?;
    let permission = match permission {
        "" => None,
        "configure " => Some(Permission::Configure),
        "write " => Some(Permission::Write),
        "read " => Some(Permission::Read),
        _ => return None,
    };
    let (object, user) = rest.split_once(" refused for user '")?;
    let user = user.strip_suffix('\'')?.to_owned();
    answer(object, Problem::Forbidden { user, permission })
}

/// `queue 'Q' in vhost 'V'`
fn answer(object: &str, problem: Problem) -> Option<Answer> {
    let (kind, rest) = object.split_once(" '")?;
    let (name, vhost) = rest.rsplit_once("' in vhost '")?;
    let object = match kind {
        "queue" => TopologyObject::Queue,
        "exchange" => TopologyObject::Exchange,
        _ => return None,
    };
    Some(Answer {
        object,
        name: name.into(),
        vhost: vhost.strip_suffix('\'')?.into(),
        problem,
    })
}

/// An argument as the broker's text has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: String,
    /// `longstr` or `signedint`, say; not told beside another value that was received.
    pub(crate) kind: Option<String>,
}

/// `none`, `'1000'` or `the value '1000' of type 'signedint'`; nothing if the text was cut.
#[expect(
    clippy::option_option,
    reason = "the outer one: whether it could be read"
)]
fn value(text: &str) -> Option<Option<Value>> {
    if text == "none" {
        return Some(None);
    }
    let (text, kind) = match text.strip_prefix("the value ") {
        Some(typed) => {
            let (text, kind) = typed.rsplit_once(" of type '")?;
            (text, Some(kind.strip_suffix('\'')?))
        }
        None => (text, None),
    };
    let text = text.strip_prefix('\'')?.strip_suffix('\'')?;
    Some(Some(Value {
        text: text.into(),
        kind: kind.map(Into::into),
    }))
}

#[cfg(test)]
mod tests;
