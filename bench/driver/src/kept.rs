//! Figures that are kept in files.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use idem_servers::{Error, Result};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Writes figures as JSON, each on a line of its own.
pub(crate) fn json(file: &Path, figures: &impl Serialize) -> Result<()> {
    text(file, lines(figures))
}

/// Writes what is text already.
pub(crate) fn text(file: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    fs::write(file, text).map_err(Error::io(format!("write {}", file.display())))
}

fn lines(figures: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut json, Lines::default());
    let written = figures.serialize(&mut serializer);
    written.expect("figures are plain data");
    json.push(b'\n');
    json
}

/// Breaks lines in the outermost object and its lists, and not in what these hold.
#[derive(Debug, Default)]
struct Lines {
    objects: usize,
    lists: usize,
}

impl Lines {
    /// Before a field, an element, or the end of either.
    fn next<W: ?Sized + Write>(&self, to: &mut W, after: &str, depth: usize) -> io::Result<()> {
        match self.objects {
            0 | 1 => write!(to, "{after}\n{:depth$}", "", depth = 2 * depth),
            _ if after.is_empty() => Ok(()),
            _ => write!(to, "{after} "),
        }
    }
}

impl Formatter for Lines {
    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.objects += 1;
        to.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, if first { "" } else { "," }, 1)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.next(to, "", 0)?;
        self.objects -= 1;
        to.write_all(b"}")
    }

    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.lists += 1;
        to.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, if first { "" } else { "," }, 1 + self.lists)
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.lists -= 1;
        self.next(to, "", 1 + self.lists)?;
        to.write_all(b"]")
    }
}

#[cfg(test)]
mod tests {
    #[derive(serde::Serialize)]
    struct Figure {
        name: &'static str,
        rounds: [u8; 2],
    }

    #[derive(serde::Serialize)]
    struct Figures {
        messages: u32,
        races: [[Figure; 2]; 1],
    }

    #[test]
    fn each_figure_is_a_line() {
        let [a, b] = ["a", "b"].map(|name| Figure {
            name,
            rounds: [1, 2],
        });
        let figures = Figures {
            messages: 9,
            races: [[a, b]],
        };
        let json = String::from_utf8(super::lines(&figures)).unwrap();
        let expected = r#"{
  "messages": 9,
  "races": [
    [
      {"name": "a", "rounds": [1, 2]},
      {"name": "b", "rounds": [1, 2]}
    ]
  ]
}
"#;
        assert_eq!(json, expected);
    }
}
