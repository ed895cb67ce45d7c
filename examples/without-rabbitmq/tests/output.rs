//! What two ask for is done once, after a failure, too.

use idem_servers::example;

#[test]
fn a_job_that_two_schedulers_start_is_done_once() {
    let printed = example::run_with(env!("CARGO_BIN_EXE_without-rabbitmq"), &[], &[]);
    let expected = "\
first: the price list is locked
invoicing 2026-02-03
first: 17 invoices, at attempt 2
second: done before, 17 invoices
";
    assert_eq!(printed, expected);
}
