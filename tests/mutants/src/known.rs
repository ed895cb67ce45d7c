//! What nobody can notice, and why.

use std::{collections::BTreeMap, fs, io, path::Path};

use super::change::Mutant;
use idem_servers::{Error, Result};

/// The reasons, by the mutants as they are told, without the numbers of their lines.
///
/// In the file each mutant is a line, and the lines below it that are indented say why nobody can notice it.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<String, String>);

impl Known {
    pub(super) fn read(path: &Path) -> Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::io(format!("read {}", path.display()))(error)),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let mut reasons: BTreeMap<String, String> = BTreeMap::new();
        let mut mutant = None;
        for line in text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        {
            if line.starts_with(' ') {
                let reason: &mut String = mutant
                    .as_ref()
                    .and_then(|mutant| reasons.get_mut(mutant))
                    .ok_or_else(|| Error::Missing(format!("there is no mutant above `{line}`")))?;
                reason.push_str(line.trim());
            } else {
                mutant = Some(line.to_owned());
                reasons.insert(line.to_owned(), String::new());
            }
        }
        match reasons.iter().find(|(_, reason)| reason.is_empty()) {
            Some((mutant, _)) => Err(Error::Missing(format!(
                "there is no reason below `{mutant}`"
            ))),
            None => Ok(Self(reasons)),
        }
    }

    /// Whether it is written down why nobody can notice this one.
    pub(super) fn explains(&self, mutant: &Mutant) -> bool {
        self.0.contains_key(&mutant.without_line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutant_has_a_reason() {
        let known =
            Known::parse("# Why.\na: `1` becomes `0`: b\n    Because.\n    Because.\n").unwrap();
        assert_eq!(known.0.len(), 1);
        for bad in ["a\nb\n  why\n", "  why\n"] {
            assert!(Known::parse(bad).is_err(), "{bad}");
        }
    }
}
