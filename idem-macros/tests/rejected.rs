//! `docs/rejected.md` explains every message that the UI tests show, and no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

fn here(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What the compiler says of each mistake, by the name of its example.
fn said() -> BTreeMap<String, BTreeSet<String>> {
    let examples = fs::read_dir(here("tests/ui/fail")).expect("the examples");
    let paths = examples.map(|entry| entry.expect("an example").path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "stderr"))
        .map(|path| {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let text = fs::read_to_string(&path).expect("what the compiler says");
            (name, text.lines().filter_map(message).collect())
        })
        .collect()
}

/// `error[E0609]: no field …` without what comes before the words.
fn message(line: &str) -> Option<String> {
    let rest = line.strip_prefix("error")?;
    let rest = match rest.strip_prefix('[') {
        Some(code) => code.split_once(']')?.1,
        None => rest,
    };
    rest.strip_prefix(": ").map(str::to_owned)
}

/// The page's messages, and the examples that it names for each.
fn explained() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(here("../docs/rejected.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|line| !line.starts_with("| the compiler says"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [message, cure, examples] = cells[..] else {
            panic!("three cells: {row}");
        };
        assert!(!cure.is_empty(), "no cure: {row}");
        let examples = examples.split('`').skip(1).step_by(2);
        (message.to_owned(), examples.map(str::to_owned).collect())
    })
    .collect()
}

/// Whether the words are these, where `…` stands for any.
fn matches(pattern: &str, words: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('…') else {
        return pattern == words;
    };
    let Some(words) = words.strip_prefix(start) else {
        return false;
    };
    let ends = words.char_indices().map(|(at, _)| at).chain([words.len()]);
    ends.into_iter().any(|at| matches(rest, &words[at..]))
}

#[test]
fn every_message_is_explained() {
    let explained = explained();
    let is_explained = |example: &str, words: &str| {
        let named = |examples: &[String]| examples.iter().any(|name| name == example);
        let mut rows = explained.iter();
        rows.any(|(pattern, examples)| named(examples) && matches(pattern, words))
    };
    let said = said();
    assert!(said.len() > 80, "{} examples were found", said.len());
    for (example, messages) in &said {
        assert!(!messages.is_empty(), "{example} is no mistake");
        for words in messages {
            assert!(is_explained(example, words), "{example}: {words}");
        }
    }
}

#[test]
fn every_explanation_is_of_a_message_that_the_compiler_says() {
    let said = said();
    for (pattern, examples) in explained() {
        assert!(!examples.is_empty(), "no example: {pattern}");
        for example in examples {
            let messages = said.get(&example).unwrap_or_else(|| panic!("no {example}"));
            let is_said = messages.iter().any(|words| matches(&pattern, words));
            assert!(is_said, "{example} does not say: {pattern}");
        }
    }
}

#[test]
fn dots_stand_for_any_words() {
    assert!(matches("a `…` b", "a `x y` b"));
    assert!(matches("a …", "a "));
    assert!(!matches("a `…` b", "a `x` c"));
    assert!(!matches("a", "ab"));
}
