//! Each order goes out several times, and waits in the queue.

use idem_servers::example;

#[test]
fn what_is_published_waits_in_the_queue() {
    let program = env!("CARGO_BIN_EXE_publish-orders");
    let url = example::vhost(program);
    let run = |arguments: &[&str]| example::run_with(program, arguments, &[("AMQP_URL", &url)]);
    assert_eq!(
        run(&["--orders", "3", "--copies", "4"]),
        "{\"done\":true,\"of\":12,\"published\":12}\n"
    );
    assert_eq!(
        run(&["--depth"]),
        "{\"consumers\":0,\"dead\":0,\"ready\":12}\n"
    );
}
