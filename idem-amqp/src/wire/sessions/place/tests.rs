//! Headers, and the place that they say, or what is wrong with them.

use lapin::{BasicProperties, types::FieldTable};

use super::*;
use crate::wire::delivery::Origin;

fn delivery(headers: &[(&str, AMQPValue)]) -> Delivery {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert((*name).into(), value.clone());
    }
    Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "q".into(),
        exchange: "".into(),
        routing_key: "q".into(),
        redelivered: false,
        properties: BasicProperties::default().with_headers(table),
    })
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn of(id: AMQPValue, number: AMQPValue, awaited: AMQPValue) -> Result<(String, u64, u64), String> {
    let headers = [(SESSION, id), (NUMBER, number), (AWAITED, awaited)];
    let place = place(&delivery(&headers))?.expect("it has all headers");
    Ok((place.id, place.number, place.awaited))
}

#[test]
fn a_message_without_the_headers_is_of_no_session() {
    assert!(place(&delivery(&[])).unwrap().is_none());
    assert!(
        place(&delivery(&[("idem-sessions", text("a"))]))
            .unwrap()
            .is_none()
    );
}

#[test]
fn numbers_are_integers_of_any_width_or_digits() {
    let numbers = [
        AMQPValue::ShortShortInt(7),
        AMQPValue::ShortShortUInt(7),
        AMQPValue::ShortInt(7),
        AMQPValue::ShortUInt(7),
        AMQPValue::LongInt(7),
        AMQPValue::LongUInt(7),
        AMQPValue::LongLongInt(7),
        AMQPValue::ShortString("7".into()),
        text("7"),
        text("007"),
    ];
    for number in numbers {
        let place = of(text("s-1"), number.clone(), AMQPValue::LongLongInt(3));
        assert_eq!(place, Ok(("s-1".into(), 7, 3)), "{number:?}");
    }
    let greatest = AMQPValue::LongLongInt(i64::MAX);
    let place = of(text("s-1"), greatest.clone(), greatest).unwrap();
    assert_eq!(place.1, 9_223_372_036_854_775_807);
}

#[test]
fn what_is_no_number_is_told_so() {
    let not = [
        AMQPValue::LongLongInt(-1),
        AMQPValue::Boolean(true),
        AMQPValue::Timestamp(7),
        AMQPValue::Double(7.0),
        AMQPValue::Void,
        text(""),
        text("+7"),
        text("-0"),
        text("7 "),
        text("seven"),
        text("9223372036854775808"),
        text("99999999999999999999999"),
    ];
    for number in not {
        let error = of(text("s-1"), number.clone(), AMQPValue::LongLongInt(0)).unwrap_err();
        assert_eq!(
            error, "`idem-number` is not a number: send an integer of 0 or more",
            "{number:?}"
        );
        let error = of(text("s-1"), AMQPValue::LongLongInt(0), number).unwrap_err();
        assert!(
            error.starts_with("`idem-awaited` is not a number"),
            "{error}"
        );
    }
}

#[test]
fn an_id_is_a_text_of_1_to_64_bytes() {
    let place = |id| of(id, AMQPValue::LongLongInt(1), AMQPValue::LongLongInt(1));
    assert!(place(text(&"x".repeat(64))).is_ok());
    for not in [
        text(""),
        text(&"x".repeat(65)),
        AMQPValue::LongLongInt(7),
        AMQPValue::LongString(vec![0xff].into()),
    ] {
        let error = place(not).unwrap_err();
        assert!(
            error.starts_with("`idem-session` is not the id of a session"),
            "{error}"
        );
    }
}

#[test]
fn all_three_headers_are_there_or_none() {
    let all = [
        (SESSION, text("s-1")),
        (NUMBER, AMQPValue::LongLongInt(1)),
        (AWAITED, AMQPValue::LongLongInt(0)),
    ];
    for missing in 0..3 {
        let mut headers = all.to_vec();
        let (name, _) = headers.remove(missing);
        let error = place(&delivery(&headers)).unwrap_err();
        assert!(
            error.starts_with(&format!("the header `{name}` is missing")),
            "{error}"
        );
    }
}

#[test]
fn a_client_that_awaits_less_than_its_own_answer_is_told_so() {
    let at = |number, awaited| {
        of(
            text("s"),
            AMQPValue::LongLongInt(number),
            AMQPValue::LongLongInt(awaited),
        )
    };
    assert!(at(7, 7).is_ok());
    let error = at(7, 8).unwrap_err();
    assert!(
        error.starts_with("`idem-awaited` is 8, above `idem-number`, which is 7"),
        "{error}"
    );
}
