//! From the broker's refusal of a queue or an exchange to an error that says what to do.

use lapin::{Error, ErrorKind};

use super::{answer, cure};
use crate::{
    error::{
        Permission, Refusal, TopologyError, TopologyObject as Object, TopologyProblem as Problem,
        said,
    },
    topology::Queue,
};

/// What was asked of the broker, of which object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    /// To declare a queue, or to find it.
    Queue(&'a str),
    /// To declare an exchange.
    Exchange(&'a str),
    /// To bind a queue to an exchange.
    Bind(&'a str),
    /// To consume a queue.
    Consume(&'a str),
}

impl<'a> Step<'a> {
    /// What it was about.
    fn subject(self) -> (Object, &'a str) {
        match self {
            Self::Queue(name) | Self::Bind(name) | Self::Consume(name) => (Object::Queue, name),
            Self::Exchange(name) => (Object::Exchange, name),
        }
    }
}

const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const PRECONDITION_FAILED: u16 = 406;

/// The error of a step that was taken for the sake of `queue`.
pub(crate) fn explain(step: Step<'_>, queue: &Queue, source: Error) -> TopologyError {
    let refusal = match source.kind() {
        ErrorKind::ProtocolError(error) => {
            refused(step, queue, error.get_id(), error.get_message().as_str())
        }
        // The connection is gone: nothing was refused.
        _ => passed_on(step, false),
    };
    TopologyError::new(refusal, said(source))
}

/// The broker's code and text, understood as far as they can be.
fn refused(step: Step<'_>, queue: &Queue, code: u16, text: &str) -> Refusal {
    let (object, name) = step.subject();
    let answer = answer::read(text).or_else(|| answer::read_cut(text, object, name));
    let Some(mut answer) = answer else {
        // Not 404: a queue can be out of reach for a while because its node is.
        return passed_on(step, matches!(code, ACCESS_REFUSED | PRECONDITION_FAILED));
    };
    if let Problem::Forbidden { permission, .. } = &mut answer.problem {
        *permission = permission.or_else(|| concluded(step, answer.object, &answer.name));
    }
    Refusal {
        cure: cure::of(&answer, queue),
        object: answer.object,
        name: answer.name,
        problem: answer.problem,
        lasting: matches!(code, ACCESS_REFUSED | NOT_FOUND | PRECONDITION_FAILED),
    }
}

fn passed_on(step: Step<'_>, lasting: bool) -> Refusal {
    let (object, name) = step.subject();
    Refusal {
        object,
        name: name.into(),
        problem: Problem::Other,
        cure: String::new(),
        lasting,
    }
}

/// Which permission was missing, of a broker that does not tell. A queue that dead-letters must be
/// readable to be declared, an exchange that has an alternate one, too: there it stays open.
fn concluded(step: Step<'_>, refused: Object, name: &str) -> Option<Permission> {
    match (step, refused) {
        (Step::Consume(_), Object::Queue) | (Step::Bind(_), Object::Exchange) => {
            Some(Permission::Read)
        }
        (Step::Bind(_), Object::Queue) | (Step::Queue(_), Object::Exchange) => {
            Some(Permission::Write)
        }
        (Step::Exchange(declared), Object::Exchange) if declared != name => Some(Permission::Write),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
