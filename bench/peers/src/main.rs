//! Runs the HTTP layers of several crates through the same cases, over sockets, and prints which they pass: the table
//! of peers in `docs/http.md`.
//!
//! ```sh
//! cd bench && cargo run --ignore-rust-version -p bench-peers
//! cd bench && cargo run --ignore-rust-version --release -p bench-peers -- speed    # how fast each is
//! ```
//!
//! What a crate does not claim is not held against it: the table says `not offered`, also where it was so.

use std::process::ExitCode;

mod cases;
mod client;
mod crash;
mod peer;
mod speed;

use bench_http::Load;
use cases::CASES;
use clap::{Parser, Subcommand};
use peer::Peer;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// How many requests a second each crate makes
    Speed(Load),
    /// The service of the case with a crash: this program starts it
    #[command(hide = true)]
    Serve {
        /// Its database
        file: String,
        /// Whether its first handler dies
        #[arg(long)]
        dies: bool,
    },
}

const PEERS: [Peer; 3] = [Peer::Idem, Peer::Idempotent, Peer::AxumIdempotent];

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match Options::parse().what {
        Some(What::Serve { file, dies }) => crash::serve(&file, dies).await?,
        Some(What::Speed(load)) => speed::compare(&load).await?,
        None => return Ok(cases().await),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints which crate passes which case.
async fn cases() -> ExitCode {
    let headings = PEERS.map(|peer| format!(" {} |", peer.name())).concat();
    println!("| |{headings}\n|---|{}", "---|".repeat(PEERS.len()));
    let mut idem_passes = true;
    for case in CASES {
        let mut row = vec![case.title.to_owned()];
        for peer in PEERS {
            let told = match (case.lacking(peer), case.run(peer).await) {
                (None, Ok(())) => "yes".into(),
                (None, Err(found)) => format!("no: {found}"),
                (Some(why), Ok(())) => format!("not offered: {why}; here it was so"),
                (Some(why), Err(_)) => format!("not offered: {why}"),
            };
            idem_passes &= peer != Peer::Idem || told == "yes";
            row.push(told);
        }
        println!("| {} |", row.join(" | "));
    }
    if idem_passes {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
