//! Words that are left out, because a stranger to the code knows others for the same things.

use std::{collections::BTreeSet, fs, path::Path};

/// Which of these words stand in the files of a folder, as words or as parts of names, and where.
///
/// # Panics
/// If a file cannot be read.
pub fn found(words: &[&str], folder: &Path) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for entry in
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    {
        let path = entry
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .path();
        if path.is_dir() {
            places.append(&mut found(words, &path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for (number, line) in text.lines().enumerate() {
                for word in parts(line)
                    .into_iter()
                    .filter(|word| words.contains(&word.as_str()))
                {
                    places.insert(format!("{}:{}: `{word}`", path.display(), number + 1));
                }
            }
        }
    }
    places
}

/// The words of a line in small letters, names taken apart: `PendingCalls` and `pending_calls` are two each.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for letter in line.chars() {
        let begins = !letter.is_ascii_alphabetic() || letter.is_ascii_uppercase();
        if begins && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| letter.is_ascii_alphabetic()) {
            part.push(letter.to_ascii_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let line = "pub(super) struct PendingCalls; // at_the_desk: 2 seats";
        let parts = parts(line);
        for word in ["pending", "calls", "desk", "seats"] {
            assert!(parts.iter().any(|part| part == word), "{word} in {parts:?}");
        }
        assert!(!parts.iter().any(|part| part == "seat"));
    }
}
