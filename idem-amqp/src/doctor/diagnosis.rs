//! A finding, and whether a worker may start with it.

use idem_core::store::{Finding, Severity};

use crate::topology::Queue;

/// A finding, and whether a worker may start with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    pub(crate) finding: Finding,
    pub(crate) bars: Bars,
}

/// Whether something bars a worker from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bars {
    /// No: it is no error, or rests on something that is not known.
    No,
    /// It loses messages for certain: the worker starts only if somebody accepts that.
    UnlessAccepted,
    /// It does not work, so the worker never starts.
    Always,
}

impl Diagnosis {
    /// Something to be reported. A worker may start with it.
    pub(super) fn reported(finding: Finding) -> Self {
        Self {
            finding,
            bars: Bars::No,
        }
    }

    /// Something by which messages are lost.
    pub(super) fn losing(finding: Finding) -> Self {
        Self {
            finding,
            bars: Bars::UnlessAccepted,
        }
    }

    /// Something with which nothing works.
    pub(super) fn broken(finding: Finding) -> Self {
        Self {
            finding,
            bars: Bars::Always,
        }
    }

    /// What it is to somebody who has accepted it: good to know.
    pub(super) fn of(mut self, queue: &Queue) -> Self {
        if self.bars != Bars::Always && queue.accepts(self.finding.code) {
            self.finding.severity = Severity::Note;
            self.bars = Bars::No;
        }
        self.finding = self.finding.about(queue.name());
        self
    }

    /// What it is where it is so for one handler of several.
    pub(super) fn of_handler(mut self, handler: &str) -> Self {
        let text = &self.finding.text;
        self.finding.text = format!("for the handler `{handler}`, {text}");
        self
    }
}
