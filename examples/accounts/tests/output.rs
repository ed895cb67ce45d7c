//! Copies, a failure after the write, and copies that come when idem has forgotten the message leave one effect each.

use idem_servers::example;

#[test]
fn an_account_is_opened_once_and_debited_once_for_each_order() {
    let printed = example::run(env!("CARGO_BIN_EXE_accounts"));
    let expected = "\
opened ada with 10000 cents
debited 1299 for o-1 at attempt 1
debited 4900 for o-2 at attempt 2
a while later
deliveries=10 executed=3 duplicate=6 failed=1
ada: 3801 cents
";
    assert_eq!(printed, expected);
}
