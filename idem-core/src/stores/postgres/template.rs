//! Statements that are sent as text: what is left of a file, and where a message's values go.
//!
//! The ends of handlers' transactions are texts, because several statements go out in one message
//! and so cannot have parameters. What must stay true: nothing is quoted or escaped here, so only
//! numbers, hexadecimal digits and fixed words may be put in, or SQL whose maker has quoted it.

use std::fmt::{self, Display, Write as _};

/// A file's statements without comments and indentation: they are sent with each message, and
/// `pg_stat_activity` shows only their first kilobyte. Everything behind `--` goes, so no literal
/// in such a file may hold that.
pub(super) fn bare(file: &str) -> String {
    let lines = file.lines().map(|line| match line.split_once("--") {
        Some((before, _)) => before.trim(),
        None => line.trim(),
    });
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// A text with placeholders, `{name}`, taken apart once so that filling it is a copy.
#[derive(Debug)]
pub(super) struct Template {
    /// What stands before each placeholder, and its name.
    pieces: Vec<(String, String)>,
    /// What stands behind the last one.
    tail: String,
}

impl Template {
    /// Takes a text apart. A `{` without its `}` stays as it is.
    pub(super) fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{')
            && let Some((name, after)) = behind.split_once('}')
        {
            pieces.push((before.to_owned(), name.to_owned()));
            rest = after;
        }
        Self {
            pieces,
            tail: rest.to_owned(),
        }
    }

    /// Puts the values in. What they hold is not looked at: no placeholder is found in one, or one
    /// value could bring in another.
    pub(super) fn fill(&self, values: &[(&str, &dyn Display)]) -> String {
        let mut text = String::with_capacity(1024);
        for (before, name) in &self.pieces {
            text.push_str(before);
            let value = values.iter().find(|(of, _)| of == name);
            let written = match value {
                Some((_, value)) => write!(text, "{value}"),
                // The placeholder stays, and the server objects to it. So a mistake here is an
                // error, and never a statement without its value.
                None => write!(text, "{{{name}}}"),
            };
            written.expect("a string takes what is written");
        }
        text.push_str(&self.tail);
        text
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<&str> {
        self.pieces.iter().map(|(_, name)| name.as_str()).collect()
    }
}

/// Bytes as hexadecimal digits, which mean the same under every setting of the session.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // Many at a time: a message of 100 KB is 200,000 digits.
        let mut digits = [0; 256];
        for bytes in self.0.chunks(digits.len() / 2) {
            for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 15)];
            }
            let written = str::from_utf8(&digits[..2 * bytes.len()]);
            f.write_str(written.map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_by_their_digits() {
        assert_eq!(Hex(b"").to_string(), "");
        assert_eq!(Hex(&[0x00, 0x0f, 0xa7, 0xff]).to_string(), "000fa7ff");
        let long: Vec<u8> = (0..=255).cycle().take(300).collect();
        let digits: Vec<_> = long.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(Hex(&long).to_string(), digits.concat());
    }

    #[test]
    fn nothing_but_the_statements_is_sent() {
        let file = "-- Why.\nSELECT a,\n    -- Why b.\n    b -- and b\nFROM c;\n";
        assert_eq!(bare(file), "SELECT a, b FROM c;");
    }

    #[test]
    fn a_value_is_put_in_once_and_not_looked_at() {
        let template = Template::new("f('{key}', {token}, '{key}')");
        let text = template.fill(&[("key", &"{token}"), ("token", &-7)]);
        assert_eq!(text, "f('{token}', -7, '{token}')");
    }

    #[test]
    fn a_placeholder_without_a_value_stays() {
        let text = Template::new("a {b} c {").fill(&[]);
        assert_eq!(text, "a {b} c {");
    }
}
