//! The handler's durable name inside its keys.

/// The longest scope in bytes.
const MAX_LEN: usize = 100;

/// What is wrong with a scope. The rule is `idem_core::Key::is_scope`'s; the macro asks it in its
/// own words, at the place where the scope is written.
pub(super) fn mistake(scope: &str) -> Option<String> {
    if scope.is_empty() {
        return Some("a scope cannot be empty: write `scope = \"orders.charge\"`".into());
    }
    if scope.len() > MAX_LEN {
        return Some(format!(
            "this scope is {} bytes long: use at most {MAX_LEN}",
            scope.len()
        ));
    }
    let odd = scope.chars().find(|c| !is_fine(*c))?;
    Some(format!(
        "a scope cannot hold {odd:?}: use letters, digits, `.`, `_`, `-` and `/`"
    ))
}

fn is_fine(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/') || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_that_of_the_core() {
        let long = "x".repeat(MAX_LEN);
        let too_long = "ü".repeat(MAX_LEN / 2 + 1);
        for scope in [
            "orders.charge",
            "a/b-c_d.e",
            "zahlung_bestätigen",
            "",
            " ",
            "a b",
            "a:b",
            "a%b",
            "a~b",
            "a\0b",
            "\u{7f}",
            &long,
            &too_long,
        ] {
            assert_eq!(
                mistake(scope).is_none(),
                idem_core::Key::is_scope(scope),
                "{scope:?}"
            );
        }
    }

    #[test]
    fn every_ascii_character_is_judged_alike() {
        for byte in 0..=127_u8 {
            let scope = char::from(byte).to_string();
            assert_eq!(
                mistake(&scope).is_none(),
                idem_core::Key::is_scope(&scope),
                "{scope:?}"
            );
        }
    }
}
