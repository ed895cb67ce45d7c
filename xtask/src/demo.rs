//! The demonstrations: orders published several times each, two workers, one of them killed in the
//! middle, and a ledger that shows every order charged once; and leases, whose replies are dropped.

mod backlog;
mod leases;
mod ledger;
mod programs;
mod progress;
mod publisher;
mod report;
mod show;
mod store;
mod tally;
mod worker;

use std::{process::Stdio, time::Instant};

use self::{
    ledger::Ledger,
    programs::Programs,
    report::Report,
    show::Show,
    store::{Store, StoreKind},
};
use idem_servers::{
    Error, RabbitMq, Result,
    install::{self, RabbitMqSource},
};

use crate::cargo::{Workspace, cargo};

/// What to demonstrate.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    /// How many orders
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    orders: u32,
    /// How often each is published
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    copies: u32,
    /// Where the workers remember what they have done
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
}

/// What else there is to show.
#[derive(Clone, Debug, clap::Subcommand)]
enum Other {
    /// Asks for leases while replies are dropped and programs are killed, and counts the leases
    Leases(leases::Options),
}

/// Runs the demonstration, prints what happened and, last, one line of figures.
///
/// # Errors
///
/// Something is missing, got stuck, was lost or doubled.
pub fn run(options: &Options) -> Result<()> {
    match &options.other {
        Some(Other::Leases(options)) => leases::run(options),
        None => orders(options),
    }
}

fn orders(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let source = install::rabbitmq()?;
    let store = Store::open(options.store)?;
    println!("building the order worker and the publisher");
    build(
        &workspace,
        ["order-worker", "publish-orders"],
        options.store,
    )?;
    let (amqp_url, private) = broker(source)?;
    let programs = Programs::new(&workspace, amqp_url, store.url())?;
    let published = u64::from(options.orders) * u64::from(options.copies);
    let mut show = Show::new(&programs, private.as_ref(), published);
    let end = show.perform(options.orders, options.copies);
    if end.is_err() {
        show.break_off();
    }
    let tally = show.into_tally();
    let ledger = match (Ledger::read(&programs), &end) {
        (Err(unreadable), Ok(())) => return Err(unreadable),
        (Err(_), Err(_)) => return end,
        (Ok(ledger), _) => ledger,
    };
    let orders = programs.order_ids(options.orders);
    let delivered = if end.is_ok() { published } else { 0 };
    let report = Report::new(&orders, options.copies, delivered, &tally, &ledger);
    print!("{report}");
    end?;
    report.verdict()
}

/// The broker's URL, and the server if it is ours.
fn broker(source: RabbitMqSource) -> Result<(String, Option<RabbitMq>)> {
    match source {
        RabbitMqSource::Given(url) => {
            println!("RabbitMQ: the one that AMQP_URL names");
            Ok((url, None))
        }
        RabbitMqSource::Installed(_) => {
            let start = Instant::now();
            let server = RabbitMq::start()?;
            println!(
                "RabbitMQ: a private one on port {}, up in {:.1?}",
                server.port(),
                start.elapsed()
            );
            Ok((server.amqp_url(), Some(server)))
        }
    }
}

/// Two programs; the first has the feature of the store.
fn build(workspace: &Workspace, programs: [&str; 2], store: StoreKind) -> Result<()> {
    let feature = format!("{}/{}", programs[0], store.feature());
    let arguments = [
        "build",
        "--release",
        "--package",
        programs[0],
        "--package",
        programs[1],
        "--features",
        &feature,
    ];
    let status = cargo(&workspace.root)
        .args(arguments)
        .stdin(Stdio::null())
        .status()
        .map_err(Error::io("run cargo"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: format!("cargo {}", arguments.join(" ")),
        status: status.to_string(),
        output: String::new(),
    })
}
