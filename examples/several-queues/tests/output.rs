//! Handlers have keys of their own, queues have not.

use idem_servers::example;

#[test]
fn queues_of_one_handler_share_their_keys_and_handlers_do_not() {
    let printed = example::run(env!("CARGO_BIN_EXE_several-queues"));
    let expected = "\
orders.charge: 2 executed
orders.charge: 2 duplicate
orders.ship: 2 executed
deliveries=6 executed=4 duplicate=2
";
    assert_eq!(printed, expected);
}
