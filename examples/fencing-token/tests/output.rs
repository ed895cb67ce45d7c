//! The late write of an earlier attempt is refused.

use idem_servers::example;

#[test]
fn a_late_write_of_an_earlier_attempt_is_refused() {
    let printed = example::run(env!("CARGO_BIN_EXE_fencing-token"));
    let expected = "\
attempt 2 wrote 3 pieces
attempt 1 was refused: a later attempt has written
shelf A7 holds 3 pieces
";
    assert_eq!(printed, expected);
}
