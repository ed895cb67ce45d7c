#![deny(warnings, clippy::all, clippy::pedantic, missing_docs)]
//! Keys that are places in a sequence, and a field that is only called so.

use idem_core::{Failed, handler::Handler, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reading {
    device: Device,
    boot: Option<u32>,
    seq: u64,
    r#type: String,
    sequence: String,
}

#[derive(Deserialize)]
struct Device {
    id: u64,
}

macro_rules! handlers {
    ($($name:ident: ($($key:tt)*);)*) => {
        $(
            #[idempotent(key = $($key)*)]
            async fn $name(reading: Reading) -> Result<(), Failed> {
                let _ = (reading.device.id, reading.boot, reading.seq, reading.r#type);
                drop(reading.sequence);
                Ok(())
            }
        )*

        fn main() {
            $(consume::<$name>();)*
        }
    };
}

handlers! {
    quoted: (sequence(producer = "device.id", number = "seq"));
    bare: (sequence(producer = device.id, number = seq));
    epoch: (sequence(producer = device.id, epoch = boot, number = seq));
    parts: (sequence(producer = [device.id, "type"], epoch = [boot, header("x-run")], number = seq,));
    headers: (sequence(producer = header("x-device"), number = header("x-seq")));
    text: (sequence(producer = device.id, number = "sequence"));
    all: (sequence(producer = device.id, number = seq, window = 10, skip_gaps_after = "1h 30m"));
    stamps: (sequence());
    stamps_and_window: (sequence(window = 100_000));
    field: (sequence);
    field_in_a_list: ([sequence, seq]);
}

fn consume<H: Handler<()>>() {}
