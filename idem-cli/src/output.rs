//! What is printed: tables for people, or JSON.

use std::{
    fmt,
    io::{self, Write as _},
};

use serde_json::Value;

/// Standard output, in the form that was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    unwritten: Unwritten,
}

/// What it means that the output cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unwritten {
    /// The command has nothing else to do, so it ends.
    Ends,
    /// What the command does goes on, and its status says how it ended.
    IsNothing,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            unwritten: Unwritten::Ends,
        }
    }

    /// The same for a command whose deed or status counts, whether anybody reads of it or not.
    pub(crate) fn optional(self) -> Self {
        Self {
            unwritten: Unwritten::IsNothing,
            ..self
        }
    }

    /// One line for people; nothing where JSON is asked for.
    pub(crate) fn line(self, text: impl AsRef<str>) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        self.write(text.as_ref())
    }

    /// One object on a line; nothing unless JSON is asked for.
    pub(crate) fn object(self, object: &Value) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        self.write(object)
    }

    fn write(self, line: impl fmt::Display) -> io::Result<()> {
        match writeln!(io::stdout().lock(), "{line}") {
            Err(_) if self.unwritten == Unwritten::IsNothing => Ok(()),
            written => written,
        }
    }

    /// Rows below their headings, as wide as they need to be.
    pub(crate) fn table<const N: usize>(
        self,
        headings: [&str; N],
        rows: &[[String; N]],
    ) -> io::Result<()> {
        let headings = headings.map(str::to_owned);
        let mut widths = [0; N];
        for row in std::iter::once(&headings).chain(rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in std::iter::once(&headings).chain(rows) {
            let cells = row.iter().zip(widths);
            let cells: Vec<_> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            self.line(cells.join("  ").trim_end())?;
        }
        Ok(())
    }

    /// Names and what they stand for, one below the other.
    pub(crate) fn fields(self, fields: &[(&str, String)]) -> io::Result<()> {
        let widest = fields.iter().map(|(name, _)| name.len()).max();
        let width = widest.unwrap_or(0);
        for (name, value) in fields {
            self.line(format!("{name:width$}  {}", printable(value)))?;
        }
        Ok(())
    }
}

/// One line on standard error, which nobody may be reading.
pub(crate) fn complain(text: impl fmt::Display) {
    drop(writeln!(io::stderr(), "idem: {text}"));
}

/// On one line, and without what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// At most so many characters.
pub(crate) fn short(text: &str, longest: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= longest {
        return text;
    }
    let head: String = text.chars().take(longest - 1).collect();
    format!("{head}…")
}
