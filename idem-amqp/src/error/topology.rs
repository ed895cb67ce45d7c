//! Why a queue or an exchange cannot be used.

use std::fmt;

use super::Source;

/// A queue or an exchange that is not as the worker needs it, and what to do.
///
/// The text is one sentence for people; [`object`](Self::object), [`name`](Self::name) and
/// [`problem`](Self::problem) are for programs; what the broker said is the source.
pub struct TopologyError {
    refusal: Box<Refusal>,
    source: Source,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) object: TopologyObject,
    pub(crate) name: String,
    pub(crate) problem: TopologyProblem,
    /// What to do.
    pub(crate) cure: String,
    /// Whether waiting does not cure it.
    pub(crate) lasting: bool,
}

/// What kind of object cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyObject {
    /// A queue.
    Queue,
    /// An exchange.
    Exchange,
}

/// What is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyProblem {
    /// It exists, and one of its arguments or properties is not what idem declares. There may be
    /// more that differ: the broker names one at a time.
    Different {
        /// The argument's name, `x-delivery-limit` say, or the property's, `durable` say.
        argument: String,
        /// Its value; `None` if it is not set.
        existing: Option<String>,
        /// The value that idem declares; `None` if it declares none.
        declared: Option<String>,
    },
    /// It does not exist.
    Missing,
    /// The user lacks a permission on it.
    Forbidden {
        /// The user's name.
        user: String,
        /// The permission. Brokers before 3.11 do not tell; `None` if it cannot be concluded.
        permission: Option<Permission>,
    },
    /// Something else; the broker's own words are the error's source.
    Other,
}

/// What a user of RabbitMQ may do with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permission {
    /// Declare and delete it.
    Configure,
    /// Publish to an exchange, bind a queue.
    Write,
    /// Consume from a queue, bind to an exchange.
    Read,
}

impl TopologyError {
    pub(crate) fn new(refusal: Refusal, source: Source) -> Self {
        Self {
            refusal: Box::new(refusal),
            source,
        }
    }

    /// What kind of object it is about.
    pub fn object(&self) -> TopologyObject {
        self.refusal.object
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.refusal.name
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &TopologyProblem {
        &self.refusal.problem
    }

    /// Whether it needs a person: waiting does not cure it.
    pub(crate) fn is_lasting(&self) -> bool {
        self.refusal.lasting
    }
}

idem_core::debug_as_chain!(TopologyError);

impl std::error::Error for TopologyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// ``the queue `orders` cannot be used: its `x-delivery-limit` is `5`, idem declares `1000`; …``
impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, name, .. } = self;
        write!(f, "the {object} `{name}` cannot be used: {}", self.problem)?;
        if self.cure.is_empty() {
            return Ok(());
        }
        write!(f, "; {}", self.cure)
    }
}

impl fmt::Display for TopologyObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Exchange => "exchange",
        })
    }
}

impl fmt::Display for TopologyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Different {
                argument,
                existing,
                declared,
            } => {
                let existing = Setting(existing.as_deref(), "not set");
                let declared = Setting(declared.as_deref(), "none");
                write!(
                    f,
                    "its `{argument}` is {existing}, and idem declares {declared}"
                )
            }
            Self::Missing => f.write_str("it does not exist"),
            Self::Forbidden { user, permission } => match permission {
                Some(permission) => {
                    write!(
                        f,
                        "the user `{user}` lacks the {permission} permission on it"
                    )
                }
                None => write!(f, "the user `{user}` lacks a permission on it"),
            },
            Self::Other => f.write_str("see the broker's answer"),
        }
    }
}

/// An argument's value, for people, and what to say where there is none.
struct Setting<'a>(Option<&'a str>, &'static str);

impl fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(self.1),
            Some("") => f.write_str("empty"),
            Some(value) => write!(f, "`{value}`"),
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}
