//! Copies are told by their content.

use idem_servers::example;

#[test]
fn what_has_the_same_content_is_recorded_once() {
    let printed = example::run(env!("CARGO_BIN_EXE_content-key"));
    let expected = "\
recorded 21.5 degrees at 10:00
recorded 21.5 degrees at 10:05
deliveries=3 executed=2 duplicate=1
";
    assert_eq!(printed, expected);
}
