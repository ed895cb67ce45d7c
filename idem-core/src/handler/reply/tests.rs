//! How answers are remembered.

use proptest::prelude::*;
use serde::ser::Error as _;
use serde_json::{Value, json};

use super::*;
use crate::{
    handler::{Failed, Failure, Outcome, Refusal, Verdict},
    store::Release,
};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Not all floats survive serde_json to the last digit.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 2.0)),
        any::<String>().prop_map(Value::from),
        Just(Value::from("!")),
        Just(Value::from("?{}")),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_refusal() -> impl Strategy<Value = Refusal> {
    (any::<String>(), any::<String>(), any_json()).prop_map(|(code, message, error)| {
        let refusal = Refusal::new(code, message);
        // No error and the error `null` are the same on the wire.
        match error {
            Value::Null => refusal,
            error => refusal.typed(error),
        }
    })
}

proptest! {
    #[test]
    fn an_output_is_remembered_as_its_json(output in any_json()) {
        let outcome = Outcome::json(&output).unwrap();
        let json = serde_json::to_vec(&output).unwrap();
        prop_assert_eq!(outcome.answer(), Answer::Output(&json));
        prop_assert_eq!(outcome.rejection(), None);
    }

    #[test]
    fn a_refusal_is_remembered_as_what_it_is(refusal in any_refusal()) {
        let rejected = Outcome::rejected(&refusal);
        prop_assert_eq!(rejected.answer(), Answer::Rejected(refusal.clone()));
        prop_assert_eq!(rejected.rejection(), Some(refusal.clone()));
        let forgotten = Outcome::forgotten(&refusal);
        prop_assert_eq!(forgotten.answer(), Answer::Forgotten(refusal));
        prop_assert_eq!(forgotten.rejection(), None);
    }

    #[test]
    fn whatever_is_remembered_has_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let marked = matches!(bytes.first(), Some(b'!' | b'?'));
        let outcome = Outcome::new(bytes.clone());
        prop_assert_eq!(outcome.answer() == Answer::Output(&bytes), !marked);
    }
}

#[test]
fn what_cannot_be_read_after_a_mark_is_outdated_and_still_a_rejection() {
    for bytes in ["!", "!{}", "?", "?{\"code\":7}"] {
        let outcome = Outcome::new(bytes);
        let Answer::Forgotten(refusal) = outcome.answer() else {
            panic!("{bytes}");
        };
        assert_eq!(refusal.code(), "outcome-outdated");
        assert_eq!(outcome.rejection().is_some(), bytes.starts_with('!'));
    }
}

#[test]
fn a_refusal_without_a_typed_error_leaves_it_out() {
    let plain = Refusal::new(Refusal::KEYLESS, "no id");
    assert_eq!(
        String::from_utf8(plain.to_json()).unwrap(),
        r#"{"code":"keyless","message":"no id"}"#
    );
    let typed = Refusal::rejected("taken").typed(json!({ "by": "o-1" }));
    assert_eq!(
        String::from_utf8(typed.to_json()).unwrap(),
        r#"{"code":"rejected","message":"taken","error":{"by":"o-1"}}"#
    );
}

#[test]
fn a_refusals_message_is_cut_between_characters() {
    let refusal = Refusal::rejected("ü".repeat(Release::MAX_ERROR_LEN));
    assert_eq!(refusal.message().len(), Release::MAX_ERROR_LEN);
    let odd = format!("x{}", "ü".repeat(Release::MAX_ERROR_LEN));
    assert_eq!(
        Refusal::rejected(odd).message().len(),
        Release::MAX_ERROR_LEN - 1
    );
}

#[derive(Debug, PartialEq, Eq)]
enum LeaseError {
    Taken,
    NoJson,
}

impl Serialize for LeaseError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Taken => serializer.serialize_str("taken"),
            Self::NoJson => Err(S::Error::custom("no words")),
        }
    }
}

#[test]
fn a_typed_error_is_for_good_and_stands_in_the_refusal() {
    let refused = Refused::with(LeaseError::Taken);
    assert_eq!(refused.verdict(), Verdict::Reject);
    assert_eq!(refused.error(), Some(&LeaseError::Taken));
    let refusal = refused.refusal();
    assert_eq!(refusal.code(), "rejected");
    assert_eq!(refusal.error(), Some(&json!("taken")));
    assert_eq!(refusal.message(), "\"taken\"");
}

#[test]
fn a_typed_error_that_is_not_expressible_as_json_is_refused_all_the_same() {
    let refusal = Refused::with(LeaseError::NoJson).refusal();
    assert_eq!((refusal.code(), refusal.error()), ("rejected", None));
    assert!(refusal.message().contains("no words"), "{refusal}");
}

#[test]
fn a_rejection_without_a_type_has_its_message() {
    let refusal = Refused::<LeaseError>::rejected("nobody to lend to").refusal();
    assert_eq!(refusal, Refusal::rejected("nobody to lend to"));
}

#[test]
fn a_question_mark_makes_what_is_worth_another_attempt() {
    let parse = || -> Result<u8, Refused<LeaseError>> { Ok("x".parse::<u8>()?) };
    assert_eq!(parse().unwrap_err().verdict(), Verdict::Retry);
}

#[test]
fn a_question_mark_keeps_what_a_failure_says() {
    let helper = || -> Result<(), Failed> { Err(Failed::rejected("no")) };
    let handler = || -> Result<(), Refused<LeaseError>> { Ok(helper()?) };
    let refused = handler().unwrap_err();
    assert_eq!(refused.verdict(), Verdict::Reject);
    assert_eq!(refused.describe(), "no");
    let later = std::time::Duration::from_secs(7);
    let refused = Refused::<LeaseError>::retry_after(later, "busy");
    assert_eq!(refused.verdict(), Verdict::RetryAfter(later));
}

/// It travels in a header, and all headers have to fit into a frame.
#[test]
fn a_refusals_code_is_cut_between_characters() {
    let refusal = Refusal::new("é".repeat(200), "no");
    assert_eq!(refusal.code(), "é".repeat(127));
}
