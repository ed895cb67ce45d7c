//! What is read inside `sequence(…)`, and what is said of the rest.

use quote::quote;
use syn::parse::Parser as _;

use super::*;

fn read(tokens: TokenStream) -> Result<Sequence> {
    parse.parse2(tokens)
}

fn names(sources: &[KeySource]) -> Vec<String> {
    sources.iter().map(KeySource::name).collect()
}

fn mistakes(tokens: TokenStream) -> Vec<String> {
    let errors = read(tokens).err().into_iter().flatten();
    errors.map(|error| error.to_string()).collect()
}

#[test]
fn producer_and_number_are_enough() {
    let read = read(quote!(sequence(producer = "device.id", number = seq))).unwrap();
    assert_eq!(names(&read.producer), ["device.id"]);
    assert_eq!(names(&read.epoch), [""; 0]);
    assert_eq!(read.number.name(), "seq");
    assert!(read.window.is_none() && read.skip_gaps_after.is_none());
}

#[test]
fn every_argument_is_known_and_stands_in_any_order() {
    let read = read(quote!(sequence(
        skip_gaps_after = "10m",
        number = header("x-seq"),
        window = 100_000,
        epoch = [boot, header("x-run")],
        producer = ["tenant", first(device_id, message_id())],
    )))
    .unwrap();
    assert_eq!(
        names(&read.producer),
        ["tenant", "first(device_id, message_id())"]
    );
    assert_eq!(names(&read.epoch), ["boot", "header(x-run)"]);
    assert_eq!(read.number.name(), "header(x-seq)");
    assert_eq!(read.window.unwrap().base10_digits(), "100000");
    assert_eq!(read.skip_gaps_after.unwrap().duration.as_secs(), 600);
}

#[test]
fn without_producer_and_number_the_publishers_stamps_tell() {
    let read = read(quote!(sequence(window = 10))).unwrap();
    assert_eq!(names(&read.producer), ["header(idem-producer)"]);
    assert_eq!(names(&read.epoch), ["header(idem-epoch)"]);
    assert_eq!(read.number.name(), "header(idem-sequence)");
    assert_eq!(read.window.unwrap().base10_digits(), "10");
}

const MISTAKES: [(&str, &str); 19] = [
    ("producer = a", "`number = \"seq\"`"),
    ("number = a", "`producer = \"device_id\"`"),
    ("epoch = a", "`producer = \"device_id\"`"),
    ("epoch = a, number = b", "`producer = \"device_id\"`"),
    ("a, b", "say what this is"),
    (r#""a", "b""#, "say what this is"),
    (r#"header("x"), number = b"#, "say what this is"),
    ("producers = a, number = b", "did you mean `producer`?"),
    (
        "producer = a, number = b, number = c",
        "`number` is given twice",
    ),
    ("producer, number = b", "`producer` needs a value"),
    ("producer = a, number = [b, c]", "one field or header"),
    ("producer = a, number = message_id()", "one field or header"),
    ("producer = a, number = a", "`a` is in the key already"),
    (
        "producer = a, epoch = a, number = b",
        "`a` is in the key already",
    ),
    ("producer = a, number = b, window = 0", "from 1 to 100000"),
    (
        "producer = a, number = b, window = 100001",
        "from 1 to 100000",
    ),
    ("producer = a, number = b, first = 2", "`first`"),
    (
        r#"producer = a, number = b, skip_gaps_after = "999ms""#,
        "at least `1s`",
    ),
    ("producer = sequence(), number = b", "the whole key"),
];

#[test]
fn what_is_wrong_is_told_why() {
    for (written, words) in MISTAKES {
        let written: TokenStream = written.parse().unwrap();
        let found = mistakes(quote!(sequence(#written)));
        assert!(found[0].contains(words), "{written}: {found:#?}");
    }
}

#[test]
fn one_mistake_does_not_hide_the_next() {
    let found = mistakes(quote!(sequence(
        producer = 5,
        number = b,
        window = many,
        skip_gaps_after = "5ms"
    )));
    assert_eq!(found.len(), 3, "{found:#?}");
}
