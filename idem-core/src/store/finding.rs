//! Something that was found out about a server, and matters for what is promised.

use std::fmt;

/// How long a record that is to be removed may lie there before it counts as a sign that nobody purges. Workers purge
/// every hour.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) const UNPURGED_AFTER: std::time::Duration = std::time::Duration::from_hours(24);

/// Something about a server, or about how it is used, that matters for what is promised.
///
/// ```
/// use idem_core::store::{Finding, Severity};
///
/// fn is_bad(findings: &[Finding]) -> bool {
///     findings.iter().any(|finding| finding.severity == Severity::Error)
/// }
///
/// let finding = Finding::error("full", "the disk is full: make room").about("orders.db");
/// assert!(is_bad(&[finding]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Its name, for alerts and tests: `delivery-limit`, say. Stays the same from version to
    /// version, as the text may not.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about, where there are several: a queue's name, say.
    pub subject: Option<String>,
    /// One sentence: what is so, what can happen by it, and what to change.
    pub text: String,
}

/// How much a [`Finding`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Good to know: a limit of what is promised, or something that could not be checked.
    Note,
    /// Keys can be forgotten, messages run twice, or work waits for longer than it should.
    Warning,
    /// Messages can be lost, or it does not work like this.
    Error,
}

impl Finding {
    /// A limit of what is promised, or something that could not be checked.
    pub fn note(code: &'static str, text: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, text)
    }

    /// Something can be forgotten, run twice or wait.
    pub fn warning(code: &'static str, text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, text)
    }

    /// Messages can be lost, or it does not work like this.
    pub fn error(code: &'static str, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, text)
    }

    /// That a record whose retention has ended is still there, so many microseconds later.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn unpurged(micros: i64) -> Self {
        let hours = micros / 3_600_000_000;
        let since = match hours / 24 {
            0..=1 => format!("{hours} hours"),
            days => format!("{days} days"),
        };
        Self::warning(
            "unpurged",
            format!(
                "keys whose retention ended {since} ago are still there, so nobody has purged this store since: let a worker do \
                 it (without `purge_never`), run a `PurgeTask`, or schedule `idem purge`"
            ),
        )
    }

    fn new(severity: Severity, code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            subject: None,
            text: text.into(),
        }
    }

    /// Says what it is about.
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Writes it to the log, at the level of its severity; `of` is what was looked at.
    pub fn log(&self, of: &str) {
        let Self {
            code,
            severity,
            subject,
            text,
        } = self;
        let about = subject.as_deref();
        match severity {
            Severity::Note => tracing::info!(of, code, about, "{text}"),
            Severity::Warning => tracing::warn!(of, code, about, "{text}"),
            Severity::Error => tracing::error!(of, code, about, "{text}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}
