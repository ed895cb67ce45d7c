//! What is changed in a file, one place at a time.

use std::fmt;

/// A file with one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mutant {
    /// Below `idem-core/src/stores`.
    file: String,
    /// From 1 on.
    line: usize,
    /// The line, without what stands around it.
    text: String,
    /// Which of the equal places of the line, from 1 on.
    place: usize,
    was: String,
    becomes: String,
    /// Where in the file.
    at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Sql,
    Lua,
}

/// What is replaced by what. Of those that match at one place, the first one counts.
const SQL: &[(&str, &str)] = &[
    ("IS NOT DISTINCT FROM", "IS DISTINCT FROM"),
    ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
    ("IF NOT EXISTS", ""),
    ("NOT EXISTS", "EXISTS"),
    ("EXISTS", "NOT EXISTS"),
    ("IS NOT NULL", "IS NULL"),
    ("IS NULL", "IS NOT NULL"),
    ("IS NOT true", "IS true"),
    ("IS NOT TRUE", "IS TRUE"),
    ("NOT BETWEEN", "BETWEEN"),
    ("BETWEEN", "NOT BETWEEN"),
    ("NOT", ""),
    ("AND", "OR"),
    ("OR", "AND"),
    ("FOR UPDATE", ""),
    ("SKIP LOCKED", ""),
    ("DISTINCT", ""),
    ("DESC", ""),
    ("greatest", "least"),
    ("least", "greatest"),
    ("max", "min"),
    ("min", "max"),
    ("true", "false"),
    ("false", "true"),
    ("0", "1"),
    ("1", "0"),
    ("<>", "="),
    ("<=", "<"),
    (">=", ">"),
    ("<", "<="),
    (">", ">="),
    ("=", "<>"),
    ("+", "-"),
    ("-", "+"),
];

const LUA: &[(&str, &str)] = &[
    ("math.max", "math.min"),
    ("math.min", "math.max"),
    ("and", "or"),
    ("or", "and"),
    ("not", ""),
    ("true", "false"),
    ("false", "true"),
    ("0", "1"),
    ("1", "0"),
    ("~=", "=="),
    ("==", "~="),
    ("<=", "<"),
    (">=", ">"),
    ("<", "<="),
    (">", ">="),
    ("+", "-"),
    ("-", "+"),
];

/// What is never changed, because nobody could go on from it: these words only belong to others.
const PASSED: &[&str] = &[
    "NOT NULL",
    "OR REPLACE",
    "ON CONFLICT DO NOTHING",
    "->",
    "=>",
    ":=",
];

/// Comments run to the end of the line, in both languages.
const COMMENT: &str = "--";

/// Every change of this file.
pub(super) fn mutants(file: &str, text: &str, language: Language) -> Vec<Mutant> {
    let rules = match language {
        Language::Sql => SQL,
        Language::Lua => LUA,
    };
    let mut found = Vec::new();
    let (mut begin, mut in_set) = (0, false);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let code = line.split(COMMENT).next().unwrap_or_default().trim_end();
        let words = code.trim_start();
        in_set = language == Language::Sql && goes_on_setting(in_set, words);
        let assigns = in_set && is_assignment(words);
        let mutant = |at: usize, was: &str, becomes: &str, place| Mutant {
            file: file.to_owned(),
            line: number + 1,
            text: words.to_owned(),
            place,
            was: was.to_owned(),
            becomes: becomes.to_owned(),
            at: begin + at,
        };
        if is_left_out(words, assigns, language) {
            found.push(mutant(code.len() - words.len(), words, "", 1));
        }
        let mut places = std::collections::BTreeMap::new();
        let mut at = 0;
        let mut quoted = false;
        while at < code.len() {
            let rest = &code[at..];
            let Some(first) = rest.chars().next() else {
                break;
            };
            if first == '\'' {
                quoted = !quoted;
            }
            let passed = PASSED.iter().find(|passed| rest.starts_with(**passed));
            let rule = rules.iter().find(|(was, _)| stands(code, at, was));
            at += match (passed, rule) {
                _ if quoted => first.len_utf8(),
                (Some(passed), _) => passed.len(),
                (None, Some((was, becomes))) => {
                    let place = places.entry(*was).or_insert(0);
                    *place += 1;
                    if !(assigns && *was == "=" && *place == 1) {
                        found.push(mutant(at, was, becomes, *place));
                    }
                    was.len()
                }
                (None, None) => first.len_utf8(),
            };
        }
        begin += line.len();
    }
    found
}

/// Whether assignments of an `UPDATE` may follow.
fn goes_on_setting(in_set: bool, words: &str) -> bool {
    if words.starts_with("SET ") || words.contains("UPDATE SET") || words.ends_with(" SET") {
        return true;
    }
    in_set
        && !["WHERE", "FROM", "RETURNING", ")"]
            .iter()
            .any(|end| words.starts_with(end))
}

fn is_assignment(words: &str) -> bool {
    let words = words.strip_prefix("SET ").unwrap_or(words);
    let name = words.split(" = ").next().unwrap_or_default();
    words.contains(" = ")
        && name
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Whether the whole line can be left out.
fn is_left_out(words: &str, assigns: bool, language: Language) -> bool {
    match language {
        Language::Sql => assigns && words.ends_with(',') && !words.starts_with("SET "),
        Language::Lua => {
            let call = words.split('(').next().unwrap_or_default();
            let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '.';
            words.ends_with(')') && !call.is_empty() && call.chars().all(is_name)
        }
    }
}

/// Whether this stands here, and is no part of something longer.
fn stands(code: &str, at: usize, what: &str) -> bool {
    if !code[at..].starts_with(what) {
        return false;
    }
    let before = code[..at].chars().next_back();
    let behind = code[at + what.len()..].chars().next();
    let is_word = |it: char| it.is_ascii_alphanumeric() || "_.$?".contains(it);
    let is_sign = |it: char| "<>=~+-!|:".contains(it);
    let belongs = |it: char| {
        if what.starts_with(|it: char| it.is_ascii_alphanumeric()) {
            is_word(it)
        } else {
            is_sign(it)
        }
    };
    // A sign of something negative is none between two others.
    let is_spaced = !matches!(what, "+" | "-" | "<" | ">" | "=")
        || (before == Some(' ') && behind == Some(' '));
    !before.is_some_and(belongs) && !behind.is_some_and(belongs) && is_spaced
}

impl Mutant {
    /// The changed file, as long as it was; `None` if there is no room.
    pub(super) fn fitted(&self, text: &str) -> Option<String> {
        let (before, behind) = (&text[..self.at], &text[self.at + self.was.len()..]);
        let changed = format!("{before}{}{behind}", self.becomes);
        let Some(longer) = changed.len().checked_sub(text.len()) else {
            let missing = text.len() - changed.len();
            return Some(changed + &" ".repeat(missing));
        };
        shortened(&changed, longer)
    }

    /// As it is told, wherever the line stands in its file.
    pub(super) fn without_line(&self) -> String {
        format!("{}: {}", self.file, self.what())
    }

    fn what(&self) -> String {
        let Self {
            was,
            becomes,
            place,
            text,
            ..
        } = self;
        if was == text {
            return format!("left out: {text}");
        }
        let place = if *place > 1 {
            format!(" ({place})")
        } else {
            String::new()
        };
        format!("`{was}`{place} becomes `{becomes}`: {text}")
    }
}

/// Without so many of the characters that mean nothing: comments and indentation.
fn shortened(text: &str, mut by: usize) -> Option<String> {
    let mut short = String::with_capacity(text.len());
    for line in text.lines() {
        let (code, comment) = line.split_at(line.find(COMMENT).unwrap_or(line.len()));
        let of_comment = by.min(comment.len().saturating_sub(COMMENT.len()));
        let of_indent = (by - of_comment).min(code.len() - code.trim_start_matches(' ').len());
        by -= of_comment + of_indent;
        short.push_str(&code[of_indent..]);
        short.push_str(comment.get(..comment.len() - of_comment)?);
        short.push('\n');
    }
    squeezed(&short, by)
}

/// Without so many of the spaces beside an operator, a comma or a bracket that stand in no string.
fn squeezed(text: &str, mut by: usize) -> Option<String> {
    const APART: &str = "=<>~+*/,()|";
    let is_apart = |one: Option<char>| one.is_some_and(|one| APART.contains(one));
    let mut short = String::with_capacity(text.len());
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(one) = rest.next() {
        let (before, behind) = (
            is_apart(short.chars().last()),
            is_apart(rest.peek().copied()),
        );
        if one == ' ' && by > 0 && quote.is_none() && before != behind {
            by -= 1;
            continue;
        }
        if quote == Some(one) {
            quote = None;
        } else if quote.is_none() && matches!(one, '\'' | '"') {
            quote = Some(one);
        }
        short.push(one);
    }
    (by == 0).then_some(short)
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, language: Language) -> Vec<String> {
        let all = mutants("f", text, language).into_iter();
        all.map(|mutant| mutant.to_string()).collect()
    }

    #[test]
    fn each_predicate_of_a_statement_is_changed_once() {
        let text = "-- AND so on\nSELECT a FROM t\nWHERE a <= $1 AND b <> 'AND' AND NOT EXISTS (\n";
        let expected = [
            "f:3: `<=` becomes `<`: WHERE a <= $1 AND b <> 'AND' AND NOT EXISTS (",
            "f:3: `AND` becomes `OR`: WHERE a <= $1 AND b <> 'AND' AND NOT EXISTS (",
            "f:3: `<>` becomes `=`: WHERE a <= $1 AND b <> 'AND' AND NOT EXISTS (",
            "f:3: `AND` (2) becomes `OR`: WHERE a <= $1 AND b <> 'AND' AND NOT EXISTS (",
            "f:3: `NOT EXISTS` becomes `EXISTS`: WHERE a <= $1 AND b <> 'AND' AND NOT EXISTS (",
        ];
        assert_eq!(told(text, Language::Sql), expected);
    }

    #[test]
    fn an_assignment_is_left_out_and_not_turned_round() {
        let text = "UPDATE t\nSET a = 1,\n    b = c,\n    d = e\nWHERE f = g\n";
        let expected = [
            "f:2: `1` becomes `0`: SET a = 1,",
            "f:3: left out: b = c,",
            "f:5: `=` becomes `<>`: WHERE f = g",
        ];
        assert_eq!(told(text, Language::Sql), expected);
    }

    #[test]
    fn a_call_of_a_script_is_left_out() {
        let text = "if a == b and not c then\n  save('')\nend\n";
        let expected = [
            "f:1: `==` becomes `~=`: if a == b and not c then",
            "f:1: `and` becomes `or`: if a == b and not c then",
            "f:1: `not` becomes ``: if a == b and not c then",
            "f:2: left out: save('')",
        ];
        assert_eq!(told(text, Language::Lua), expected);
    }

    #[test]
    fn a_changed_file_is_as_long_as_it_was() {
        let text = "-- Why.\nSELECT a\n    FROM t WHERE a IS NULL\n";
        for mutant in mutants("f", text, Language::Sql) {
            let changed = mutant.fitted(text).expect("there is room");
            assert_eq!(changed.len(), text.len(), "{changed}");
            assert!(changed.contains("WHERE a IS NOT NULL"), "{changed}");
        }
        let only = |text: &str| {
            let mut all = mutants("f", text, Language::Sql);
            assert_eq!(all.len(), 1, "{text}");
            all.pop().expect("there is one").fitted(text)
        };
        let changed = only("SELECT '= ', a = b\n");
        assert_eq!(changed.as_deref(), Some("SELECT '= ',a <> b\n"));
        assert_eq!(only("SELECT a IS NULL\n"), None);
    }
}
