//! A copy and a failure after the write leave one charge each.

use idem_servers::example;

#[test]
fn each_order_is_charged_once() {
    let printed = example::run(env!("CARGO_BIN_EXE_atomic"));
    let expected = "\
charged o-1 at attempt 1
charged o-2 at attempt 2
deliveries=4 executed=2 duplicate=1 failed=1
o-1: 1299 cents
o-2: 4900 cents
";
    assert_eq!(printed, expected);
}
