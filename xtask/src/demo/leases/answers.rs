//! What the client was answered.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// A line that the client prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    Lease {
        name: String,
        lease: i64,
        replayed: bool,
    },
    Taken {
        name: String,
        taken_by: String,
    },
    Unanswered {
        name: String,
        error: String,
    },
    Done {
        done: bool,
    },
    Other(serde::de::IgnoredAny),
}

impl Line {
    pub(super) fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or(Self::Other(serde::de::IgnoredAny))
    }
}

/// All of them, by the lease's name.
#[derive(Debug, Default)]
pub(super) struct Answers {
    granted: BTreeMap<String, BTreeSet<i64>>,
    /// The client is the only one that asks, so it has been granted the lease before.
    taken: BTreeMap<String, String>,
    unanswered: BTreeMap<String, String>,
    replayed: u64,
    done: bool,
}

impl Answers {
    pub(super) fn note(&mut self, line: Line) {
        match line {
            Line::Lease {
                name,
                lease,
                replayed,
            } => {
                self.granted.entry(name).or_default().insert(lease);
                self.replayed += u64::from(replayed);
            }
            Line::Taken { name, taken_by } => drop(self.taken.insert(name, taken_by)),
            Line::Unanswered { name, error } => drop(self.unanswered.insert(name, error)),
            Line::Done { done } => self.done = done,
            Line::Other(_) => {}
        }
    }

    /// Requests that were answered, each once.
    pub(super) fn replies(&self) -> usize {
        let granted = self.granted.keys();
        let taken = self.taken.keys();
        granted.chain(taken).collect::<BTreeSet<_>>().len()
    }

    pub(super) fn replayed(&self) -> u64 {
        self.replayed
    }

    /// Whether the client has nothing left to ask.
    pub(super) fn are_complete(&self) -> bool {
        self.done
    }

    /// The leases that the client believes to have under this name.
    pub(super) fn leases(&self, name: &str) -> impl Iterator<Item = i64> {
        self.granted.get(name).into_iter().flatten().copied()
    }

    /// Who is said to have the lease of this name.
    pub(super) fn taken_by(&self, name: &str) -> Option<&str> {
        self.taken.get(name).map(String::as_str)
    }

    /// Why a request got no answer.
    pub(super) fn unanswered(&self) -> Option<(&str, &str)> {
        let first = self.unanswered.first_key_value();
        first.map(|(name, error)| (name.as_str(), error.as_str()))
    }
}

#[cfg(test)]
pub(super) fn answers(lines: &[&str]) -> Answers {
    let mut answers = Answers::default();
    for line in lines {
        answers.note(Line::read(line));
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_given_twice_is_one() {
        let answers = answers(&[
            r#"{"session":"s","begun":0,"in_flight":0}"#,
            r#"{"name":"a","lease":1,"replayed":false}"#,
            r#"{"name":"a","lease":1,"replayed":true}"#,
            r#"{"name":"b","lease":2,"replayed":true}"#,
            r#"{"name":"c","error":"nobody answers"}"#,
        ]);
        assert_eq!((answers.replies(), answers.replayed()), (2, 2));
        assert_eq!(answers.leases("a").collect::<Vec<_>>(), [1]);
        assert_eq!(answers.unanswered(), Some(("c", "nobody answers")));
        assert!(!answers.are_complete());
    }

    #[test]
    fn the_client_says_when_it_has_done() {
        let answers = answers(&[r#"{"done":true,"unanswered":0}"#]);
        assert!(answers.are_complete());
    }
}
