//! Measures a consumer that handles each message once beside the consumers that people write by hand.
//!
//! Each contestant is a process of its own, the program `bench-consume` or that of a guest; this
//! here starts the servers, has a queue filled, lets one contestant after the other consume it, and compares.

mod aims;
mod chart;
mod contestant;
mod figures;
mod finish;
mod plan;
mod report;
mod setting;

use std::{path::PathBuf, time::Duration};

use self::{
    chart::Chart,
    figures::Figures,
    plan::{Heat, Plan},
    report::Report,
};
pub use self::{contestant::Contestant, finish::Finish, setting::QueueKind};
use super::{arena::Arena, kept};
use idem_servers::Result;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Rougher figures, in less than a minute: classic queue, prefetch 256
    #[arg(long)]
    quick: bool,
    /// Only these, beside the one that all others are compared with [default: all but mq-bridge-…]
    #[arg(long, value_enum, value_delimiter = ',')]
    contestant: Vec<Contestant>,
    /// Only these types of queue [default: classic,quorum, with --quick classic]
    #[arg(long, value_enum, value_delimiter = ',')]
    queues: Vec<QueueKind>,
    /// How many deliveries may be unacknowledged [default: 256,1000, with --quick 256]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(16..))]
    prefetch: Vec<u16>,
    /// How many messages are in the queue [default: 50000, with --quick 4000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(10..))]
    messages: Option<u32>,
    /// How many of a hundred messages are copies of earlier ones
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(..=50))]
    duplicates: u8,
    /// How often each contestant has its turn [default: 5, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// How long a call of a handler takes, in milliseconds: of those by hand and of mq-bridge, too
    #[arg(long, default_value_t = 0)]
    handler_ms: u64,
    /// How long whatever is sent takes between a consumer and a server, each way, in milliseconds
    #[arg(long, default_value_t = 0)]
    link_ms: u64,
    /// Writes every figure to a file, too
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draws the figures into a file
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// Measures, prints tables and, last, one line per contestant.
///
/// # Errors
///
/// Something is missing, or a contestant left a message or ran one more often than it should.
pub fn run(options: &Options) -> Result<()> {
    let plan = Plan::new(options);
    for (setting, contestant, reason) in plan.left_out() {
        eprintln!("{setting}: without {}, {reason}", contestant.name());
    }
    let delays = plan.delays();
    let mut arena = Arena::open(plan.contestants())?;
    if delays.link_ms > 0 {
        arena = arena.far_away(Duration::from_millis(delays.link_ms))?;
    }
    // A broker's first messages are slow.
    if let Some(first) = plan.heats().next() {
        hold(&arena, &first, &plan)?;
    }
    let mut figures = Figures::default();
    for heat in plan.heats() {
        eprintln!("{heat}");
        figures.add(heat, hold(&arena, &heat, &plan)?);
    }
    let report = Report::new(&figures, &plan);
    if let Some(file) = &options.json {
        kept::json(file, &report)?;
    }
    if let Some(file) = &options.svg {
        kept::text(file, Chart::of(report.standings()).to_string())?;
    }
    print!("{report}");
    Ok(())
}

/// Fills a queue and lets the contestant consume it.
fn hold(arena: &Arena, heat: &Heat, plan: &Plan) -> Result<Finish> {
    let queue = heat.setting.queue;
    let messages = plan.messages_in(queue);
    arena.load(messages, queue)?;
    let prefetch = heat.setting.prefetch.to_string();
    let handler_ms = plan.delays().handler_ms.to_string();
    let options = [
        "--kind",
        queue.name(),
        "--prefetch",
        &prefetch,
        "--handler-ms",
        &handler_ms,
    ];
    arena.let_act(heat.contestant, "consume", messages, &options)
}
