//! The executor runs on a store of one's own.

use idem_servers::example;

#[test]
fn a_copy_is_recognised_by_the_store() {
    let printed = example::run_with(env!("CARGO_BIN_EXE_custom-store"), &[], &[]);
    let expected = "\
charging o-1
o-1: executed
charging o-2
o-2: executed
o-1: duplicate
";
    assert_eq!(printed, expected);
}
