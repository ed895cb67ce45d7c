//! What a store has found out about its server.

use std::fmt;

/// Something about a store's server that matters for what the store promises.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// One sentence: what is so, what can be lost by it, and what to change.
    pub text: String,
}

/// How much a [`Finding`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Good to know: a limit of what is promised, or something that could not be checked.
    Note,
    /// Keys can be forgotten, and messages run twice.
    Warning,
    /// The store does not work like this.
    Error,
}

impl Finding {
    /// A limit of what is promised, or something that could not be checked.
    pub fn note(text: impl Into<String>) -> Self {
        Self::new(Severity::Note, text)
    }

    /// Keys can be forgotten.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, text)
    }

    /// The store does not work like this.
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Severity::Error, text)
    }

    fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self {
            severity,
            text: text.into(),
        }
    }

    /// Writes it to the log, at the level of its severity.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "no store looks at its server")
    )]
    pub(crate) fn log(&self, store: &str) {
        let text = &self.text;
        match self.severity {
            Severity::Note => tracing::info!(store, "{text}"),
            Severity::Warning => tracing::warn!(store, "{text}"),
            Severity::Error => tracing::error!(store, "{text}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
