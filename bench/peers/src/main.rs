//! Runs the HTTP layers of several crates through the same cases, over sockets, and prints which they pass: the table
//! of peers in `docs/http.md`.
//!
//! ```sh
//! cd bench && cargo run --ignore-rust-version -p bench-peers
//! ```
//!
//! What a crate does not claim is not held against it: such a case is not run, and the table says `not offered`.

use std::{error::Error, process::ExitCode};

mod cases;
mod client;
mod crash;
mod peer;

use cases::CASES;
use peer::Peer;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PEERS: [Peer; 3] = [Peer::Idem, Peer::Idempotent, Peer::AxumIdempotent];

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if let (Some("serve"), Some(file)) = (arguments.next().as_deref(), arguments.next()) {
        let dies = arguments.next().is_some();
        crash::serve(&file, dies).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let headings = PEERS.map(|peer| format!(" {} |", peer.name())).concat();
    println!("| |{headings}\n|---|{}", "---|".repeat(PEERS.len()));
    let mut idem_passes = true;
    for case in CASES {
        let mut row = vec![case.title.to_owned()];
        for peer in PEERS {
            let told = match case.lacking(peer) {
                Some(why) => format!("not offered: {why}"),
                None => match case.run(peer).await {
                    Ok(()) => "yes".into(),
                    Err(found) => format!("no: {found}"),
                },
            };
            idem_passes &= peer != Peer::Idem || told == "yes";
            row.push(told);
        }
        println!("| {} |", row.join(" | "));
    }
    Ok(if idem_passes {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
