//! Asks the lease server for leases, and asks again until it is answered.
//!
//! ```sh
//! cargo run -p lease-client -- --requests 20
//! ```
//!
//! Its requests are numbered in a session, which is kept in a file: killed and started again, it goes on
//! where it was, and even what was in flight is done once.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use futures_util::{StreamExt as _, stream};
use idem_amqp::{
    Client,
    session::{FileSessionStorage, Session, SessionStorage as _},
};
use lease_contract::CreateLease;

mod report;

use report::Report;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Asks the lease server for leases, and asks again until it is answered
#[derive(Debug, Parser)]
struct Settings {
    /// How many leases to ask for
    #[arg(long, default_value_t = 20)]
    requests: u64,
    /// The leases are named NAME-000001 and so on
    #[arg(long, value_name = "NAME", default_value = "lease")]
    run: String,
    /// Who is to have them
    #[arg(long, default_value = "lease-client")]
    holder: String,
    /// Where the session is kept until all is answered
    #[arg(long, value_name = "FILE", default_value = "leases.session")]
    session: PathBuf,
    /// How many milliseconds an answer may take before the request is sent again
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    timeout: u64,
    /// How many seconds a request may take, all its tries included
    #[arg(long, value_name = "S", default_value_t = 60)]
    deadline: u64,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// The broker
    #[arg(
        long,
        env = "AMQP_URL",
        default_value = "amqp://127.0.0.1:5672/%2f",
        hide_env_values = true
    )]
    amqp_url: String,
    /// The queue of the lease server
    #[arg(long, env = "LEASES_QUEUE", default_value = "leases")]
    queue: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let settings = Settings::parse();
    match run(&settings).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lease-client: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every request was answered.
async fn run(settings: &Settings) -> Result<bool, Error> {
    let client = Client::builder()
        .queue(&settings.queue)
        .timeout(Duration::from_millis(settings.timeout))
        .deadline(Duration::from_secs(settings.deadline))
        .connect(settings.amqp_url.as_str())
        .await?;
    let storage = FileSessionStorage::open(&settings.session).await?;
    // The first request has number 0, so the next number is how many there were.
    let begun = storage.load().await?.map_or(0, |kept| kept.next);
    let session = client.session().resume_from(storage).await?;
    let mut report = Report::new(settings.json);
    report.opened(&session, begun);

    ask_again(&session, &mut report).await?;
    let mut answers = stream::iter(begun..settings.requests)
        .map(|number| ask(&session, settings, number))
        .buffer_unordered(session.window() as usize);
    while let Some((request, answer)) = answers.next().await {
        report.answer(&request.name, &answer);
    }
    drop(answers);
    if session.unanswered().is_empty() {
        session.close().await?;
    }
    Ok(report.end())
}

/// What was in flight when the client was killed: the same requests, under the same numbers.
async fn ask_again(session: &Session, report: &mut Report) -> Result<(), Error> {
    for kept in session.unanswered() {
        let request: CreateLease = serde_json::from_str(&kept.body)?;
        let answer = session.resume::<CreateLease>(&kept.number).await;
        report.answer(&request.name, &answer);
    }
    Ok(())
}

async fn ask(session: &Session, settings: &Settings, number: u64) -> (CreateLease, report::Answer) {
    let request = CreateLease {
        name: format!("{}-{:06}", settings.run, number + 1),
        holder: settings.holder.clone(),
    };
    let answer = session.call(&request).await;
    (request, answer)
}
