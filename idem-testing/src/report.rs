//! From what was observed to what is wrong with a handler (pure).

use std::fmt::{Debug, Write as _};

use idem_core::executor::ExecutionKind;

use super::{Ending, catalogue::Situation};

/// The effects that others are compared with.
#[derive(Debug)]
pub(super) struct Reference<T> {
    /// Before anything was delivered.
    pub(super) none: T,
    /// After one delivery that nothing disturbed.
    pub(super) once: T,
    /// After a further one, to a store that knew nothing of the first.
    pub(super) twice: T,
}

/// In which way the effects are not those of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    Doubled,
    Missing,
    Other,
    /// They are, and yet the message is not taken for done.
    NotDone,
}

impl<T: PartialEq> Reference<T> {
    /// What is wrong, if anything is. A message that was quarantined waits for a person, who is to find out
    /// what became of it: its effect must not have happened twice.
    pub(super) fn compare(&self, found: &T, ending: &Ending) -> Option<Difference> {
        let is_quarantined = ending.kind == ExecutionKind::InDoubt;
        if *found == self.once {
            let is_right = ending.is_done() || is_quarantined;
            return (!is_right).then_some(Difference::NotDone);
        }
        if *found == self.twice {
            return Some(Difference::Doubled);
        }
        match is_quarantined {
            true => None,
            false if *found == self.none => Some(Difference::Missing),
            false => Some(Difference::Other),
        }
    }
}

impl Difference {
    fn in_words(self) -> &'static str {
        match self {
            Self::Doubled => "the effect is doubled",
            Self::Missing => "the effect is missing",
            Self::Other => "the effect is another one",
            Self::NotDone => "the effect is right, but the message is not taken for done",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Doubled => {
                "After a crash a leased handler runs again. Let the other side know the work by its key, or \
                 refuse older fencing tokens; or choose `in_doubt = \"quarantine\"`; or write through an \
                 atomic handler."
            }
            Self::Missing => {
                "It was taken for done before its effect was there: do the work first, and leave it to idem \
                 to remember that it was done."
            }
            Self::Other => {
                "A handler can end at every `.await`, and runs again from its beginning: what it has begun \
                 until there must be harmless, or undone by the next run."
            }
            Self::NotDone => {
                "A run that finds its own effect there is to return what the first one did."
            }
        }
    }
}

/// What else there is to say of a service that has done it again for a copy.
const UNCOVERED: &str = "A copy has run: the layer is not round this route, or the effect is outside of the layer. `Router::layer` \
                         is for the routes that were added before it, and what is added behind it runs for copies, too.";

/// What went wrong in one situation.
#[derive(Debug)]
pub(super) struct Finding<T> {
    pub(super) situation: Situation,
    pub(super) difference: Difference,
    pub(super) found: T,
    pub(super) ending: Ending,
}

/// All of it as text.
pub(super) fn report<T: Debug>(
    scope: &str,
    reference: &Reference<T>,
    findings: &[Finding<T>],
    situations: usize,
    has_layer: bool,
) -> String {
    let mut text = format!(
        "`{scope}` is not idempotent: in {} of {situations} situations\n",
        findings.len()
    );
    for finding in findings {
        let Finding {
            situation,
            difference,
            found,
            ending,
        } = finding;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n{situation}: {}\n  after one delivery: {:?}\n  here:               {found:?}\n  \
             ended as:           {ending}\n",
            difference.in_words(),
            reference.once,
        );
    }
    let uncovered =
        |it: &Finding<T>| it.situation.is_copy() && it.difference == Difference::Doubled;
    if has_layer && findings.iter().any(uncovered) {
        let _ = write!(text, "\n{UNCOVERED}\n");
    }
    let all = [
        Difference::Doubled,
        Difference::Missing,
        Difference::Other,
        Difference::NotDone,
    ];
    for difference in all {
        if findings.iter().any(|one| one.difference == difference) {
            let _ = write!(text, "\n{}\n", difference.advice());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(kind: ExecutionKind) -> Ending {
        Ending {
            kind,
            key: None,
            error: None,
        }
    }

    #[test]
    fn effects_are_compared_with_those_of_none_one_and_two() {
        use Difference::{Doubled, Missing, NotDone, Other};
        use ExecutionKind as Kind;
        let reference = Reference {
            none: 0,
            once: 1,
            twice: 2,
        };
        let table = [
            (
                Kind::Executed,
                [Some(Missing), None, Some(Doubled), Some(Other)],
            ),
            (
                Kind::Duplicate,
                [Some(Missing), None, Some(Doubled), Some(Other)],
            ),
            (Kind::InDoubt, [None, None, Some(Doubled), None]),
            (
                Kind::Rejected,
                [Some(Missing), Some(NotDone), Some(Doubled), Some(Other)],
            ),
        ];
        for (kind, expected) in table {
            let found = [0, 1, 2, 7].map(|found| reference.compare(&found, &ending(kind)));
            assert_eq!(found, expected, "{kind}");
        }
    }

    #[test]
    fn an_effect_that_repeats_itself_without_harm_is_not_doubled() {
        let reference = Reference {
            none: 0,
            once: 1,
            twice: 1,
        };
        assert_eq!(
            reference.compare(&1, &ending(ExecutionKind::Executed)),
            None
        );
    }
}
