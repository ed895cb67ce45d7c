//! One call for all messages, and an outcome for each.

use idem_servers::example;

#[test]
fn parcels_are_announced_by_one_call() {
    let printed = example::run(env!("CARGO_BIN_EXE_batch"));
    let expected = "\
announced: Aachen, Ghent, Utrecht
deliveries=5 executed=3 duplicate=1 rejected=1
";
    assert_eq!(printed, expected);
}
