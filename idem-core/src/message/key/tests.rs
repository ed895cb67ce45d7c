use std::{borrow::Cow, collections::HashSet};

use proptest::prelude::*;

use super::*;

fn key(parts: &[&str]) -> Key {
    parts
        .iter()
        .fold(Key::builder("orders"), |key, part| key.part("part", *part))
        .build()
        .unwrap()
}

#[test]
fn a_key_reads_as_scope_and_parts() {
    assert_eq!(key(&["acme", "o-17"]).as_str(), "orders:acme:o-17");
    assert_eq!(key(&["acme", "o-17"]).scope(), "orders");
}

#[test]
fn moving_a_character_over_the_border_makes_another_key() {
    assert_ne!(key(&["a", "bc"]), key(&["ab", "c"]));
    assert_ne!(key(&["a:b"]), key(&["a", "b"]));
    assert_ne!(key(&["a%3Ab"]), key(&["a:b"]));
}

#[test]
fn control_characters_and_nul_are_escaped() {
    assert_eq!(key(&["a\0b\n\u{85}"]).as_str(), "orders:a%00b%0A%C2%85");
}

#[test]
fn an_empty_part_is_refused_by_name() {
    let error = Key::builder("orders")
        .part("order_id", "")
        .build()
        .unwrap_err();
    assert_eq!(
        error,
        KeyError::Empty {
            part: "order_id".into()
        }
    );
}

#[test]
fn a_null_part_is_refused_even_beside_others() {
    let error = Key::builder("orders")
        .part("customer", "acme")
        .part("order_id", &None::<String>)
        .build()
        .unwrap_err();
    assert_eq!(
        error,
        KeyError::Missing {
            part: "order_id".into()
        }
    );
}

#[test]
fn a_key_without_parts_is_refused() {
    assert_eq!(Key::builder("orders").build(), Err(KeyError::NoParts));
}

#[test]
fn a_scope_with_a_separator_is_refused() {
    assert!(matches!(Key::new("a:b", "c"), Err(KeyError::Scope { .. })));
    assert!(matches!(Key::new("", "c"), Err(KeyError::Scope { .. })));
    assert!(Key::is_scope(&"s".repeat(100)) && !Key::is_scope(&"s".repeat(101)));
}

#[test]
fn a_long_key_keeps_a_readable_head_and_stays_distinct() {
    let long = "ö".repeat(400);
    let (a, b) = (key(&[&long, "a"]), key(&[&long, "b"]));
    assert!(a.as_str().len() <= Key::MAX_LEN);
    assert!(a.as_str().starts_with("orders:öö"));
    assert_ne!(a, b);
}

#[test]
fn a_short_part_cannot_forge_the_digest_of_a_long_key() {
    let long = key(&[&"x".repeat(400)]);
    let forged = long.as_str().strip_prefix("orders:").unwrap();
    assert_ne!(key(&[forged]), long);
}

#[test]
fn the_first_source_that_is_there_names_itself() {
    let key = Key::builder("orders")
        .first(&[("message_id", &None::<&str>), ("header x-id", &Some("7"))])
        .build()
        .unwrap();
    assert_eq!(key.as_str(), "orders:header x-id=7");
}

/// A header that is there and has no text.
struct Unreadable;

impl KeyPart for Unreadable {
    fn to_part(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn is_unreadable(&self) -> bool {
        true
    }
}

/// Two messages with other values in that header could have the same value in the next source.
#[test]
fn a_source_that_cannot_be_read_is_not_passed_over() {
    let error = KeyError::Unreadable {
        part: "header x-id".into(),
    };
    let unreadable: &dyn KeyPart = &Unreadable;
    for sources in [
        [("header x-id", unreadable), ("content", &"7")],
        [("message_id", &None::<&str>), ("header x-id", unreadable)],
    ] {
        let key = Key::builder("orders").first(&sources).build();
        assert_eq!(key, Err(error.clone()));
    }
    let before = [
        ("content", &"7" as &dyn KeyPart),
        ("header x-id", unreadable),
    ];
    let key = Key::builder("orders").first(&before).build().unwrap();
    assert_eq!(key.as_str(), "orders:content=7");
    let part = Key::builder("orders").part("header x-id", &Some(&Unreadable));
    assert_eq!(part.build(), Err(error));
}

#[test]
fn the_same_value_from_two_sources_is_two_keys() {
    let from = |source: &str| {
        Key::builder("orders")
            .first(&[(source, &"7")])
            .build()
            .unwrap()
    };
    assert_ne!(from("message_id"), from("header x-id"));
}

#[test]
fn no_source_present_is_refused_by_their_names() {
    let error = Key::builder("orders")
        .first(&[("message_id", &None::<&str>), ("content", &"")])
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the key's part `first of message_id, content` is missing: \
         send a value that names one unit of work"
    );
}

proptest! {
    #[test]
    fn different_parts_never_make_the_same_key(
        lists in prop::collection::hash_set(prop::collection::vec("[a:%~\\x00é]{1,90}", 1..5), 2..20)
    ) {
        let keys: HashSet<_> = lists
            .iter()
            .map(|parts| key(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
            .collect();
        prop_assert_eq!(keys.len(), lists.len());
    }

    #[test]
    fn a_key_is_bounded_and_printable(parts in prop::collection::vec(any::<String>(), 1..5)) {
        prop_assume!(parts.iter().all(|part| !part.is_empty()));
        let key = key(&parts.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert!(key.as_str().len() <= Key::MAX_LEN);
        prop_assert!(!key.as_str().chars().any(char::is_control));
    }
}
