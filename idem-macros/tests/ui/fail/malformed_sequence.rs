use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reading {
    device_id: String,
    boot: u32,
    seq: u64,
}

/// A handler for each row, with its name and its arguments.
macro_rules! handlers {
    ($($name:ident $arguments:tt)*) => {$(
        #[idempotent $arguments]
        async fn $name(reading: Reading) -> Result<(), Failed> {
            let _ = (reading.device_id, reading.boot, reading.seq);
            Ok(())
        }
    )*};
}

handlers! {
    without_number(key = sequence(producer = "device_id"))
    without_producer(key = sequence(number = "seq"))
    epoch_alone(key = sequence(epoch = "boot"))
    by_position(key = sequence("device_id", "seq"))
    misspelt(key = sequence(produser = "device_id", number = "seq"))
    twice(key = sequence(producer = "device_id", number = "seq", number = "seq"))
    several_numbers(key = sequence(producer = "device_id", number = ["seq", "boot"]))
    number_from_nowhere(key = sequence(producer = "device_id", number = message_id()))
    one_field_for_both(key = sequence(producer = "seq", number = "seq"))
    no_window(key = sequence(producer = "device_id", number = "seq", window = 0))
    too_wide(key = sequence(producer = "device_id", number = "seq", window = 1_000_000))
    unknown_argument(key = sequence(producer = "device_id", number = "seq", frist = 7))
    wait_without_unit(key = sequence(producer = "device_id", number = "seq", skip_gaps_after = 600))
    short_wait(key = sequence(producer = "device_id", number = "seq", skip_gaps_after = "50ms"))
    one_of_several(key = ["device_id", sequence()])
    in_first(key = first(message_id(), sequence()))
}

fn main() {}
