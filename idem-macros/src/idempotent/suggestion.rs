//! "Did you mean …": the nearest of the names there are.

/// What other libraries and other people call it.
const ALIASES: [(&str, &str); 14] = [
    ("attempts", "max_attempts"),
    ("body", "content"),
    ("deadline", "timeout"),
    ("expiry", "retention"),
    ("fields", "key"),
    ("id", "key"),
    ("key_fn", "key_with"),
    ("krate", "crate"),
    ("mode", "enforcement"),
    ("name", "scope"),
    ("namespace", "scope"),
    ("retries", "max_attempts"),
    ("time_limit", "timeout"),
    ("ttl", "retention"),
];

/// The name that was probably meant.
pub(super) fn nearest<'a>(written: &str, names: &[&'a str]) -> Option<&'a str> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == written);
    if let Some(name) = alias.and_then(|(_, meant)| names.iter().find(|name| *name == meant)) {
        return Some(name);
    }
    let near = names.iter().map(|name| (distance(written, name), *name));
    let (distance, name) = near.min()?;
    (distance <= written.len().max(name.len()) / 3).then_some(name)
}

/// "`leese` is not an argument: did you mean `lease`?" or the list of what there is.
pub(super) fn unknown(written: &str, what: &str, names: &[&str]) -> String {
    let list: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let list = list.join(", ");
    match nearest(written, names) {
        Some(name) => format!("`{written}` is not {what}: did you mean `{name}`? There are {list}"),
        None => format!("`{written}` is not {what}: there are {list}"),
    }
}

/// How many insertions, deletions and replacements lead from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["lease", "retention", "max_attempts", "key"];

    #[test]
    fn a_typo_finds_its_name() {
        assert_eq!(nearest("leese", &NAMES), Some("lease"));
        assert_eq!(nearest("retantion", &NAMES), Some("retention"));
        assert_eq!(nearest("max_attempt", &NAMES), Some("max_attempts"));
    }

    #[test]
    fn an_alias_finds_its_name() {
        assert_eq!(
            nearest("time_limit", &["lease", "timeout"]),
            Some("timeout")
        );
        assert_eq!(nearest("ttl", &NAMES), Some("retention"));
        assert_eq!(nearest("name", &NAMES), None, "scope is not on offer");
    }

    #[test]
    fn anything_else_finds_nothing() {
        assert_eq!(nearest("colour", &NAMES), None);
    }

    #[test]
    fn distances_are_levenshtein() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
