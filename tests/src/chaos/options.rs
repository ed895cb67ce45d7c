//! What can be asked for on the command line.

use super::{Fault, Queues, StoreKind};

/// What is to go wrong, for how long, and where.
#[derive(Clone, Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Options {
    /// How long orders are published and faults injected
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..))]
    pub(super) seconds: u64,
    /// The same seed plans the same faults and orders [default: a random one, printed]
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Where the workers remember what they have done
    #[arg(long, value_enum, default_value_t = StoreKind::Postgres)]
    pub(super) store: StoreKind,
    /// Handlers are leased instead of atomic; with Redis they always are
    #[arg(long)]
    pub(super) leased: bool,
    /// Atomic handlers share their transactions; with PostgreSQL only
    #[arg(long, conflicts_with = "leased")]
    pub(super) grouped: bool,
    /// Orders share calls of their handler
    #[arg(long, conflicts_with = "grouped")]
    pub(super) batched: bool,
    /// Handlers publish by their outbox, and another worker consumes that; atomic ones with PostgreSQL or SQLite only
    #[arg(long, conflicts_with_all = ["leased", "grouped"])]
    pub(super) outbox: bool,
    /// The type of the queues
    #[arg(long, value_enum, default_value_t = Queues::Quorum)]
    pub(super) queues: Queues,
    /// How many workers there are
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub(super) workers: u64,
    /// Only these faults
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) only: Vec<Fault>,
    /// Prints what is planned, and does nothing
    #[arg(long)]
    print_schedule: bool,
}

impl Options {
    /// Whether nothing is to be done.
    pub fn prints_schedule_only(&self) -> bool {
        self.print_schedule
    }
}
