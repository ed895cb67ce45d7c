//! Leases: a client that numbers its requests, a server that grants each once, and between them a thief
//! of replies.

mod answers;
mod programs;
mod replies;
mod report;
mod show;
mod thief;

use self::{programs::Programs, report::Report, show::Show, thief::Thief};
use super::{
    broker, build,
    store::{Store, StoreKind},
};
use idem_servers::{Error, Result, install};

use crate::cargo::Workspace;

/// What to demonstrate with leases.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How many leases are asked for
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    requests: u32,
    /// Which share of the replies is dropped on its way to the client, 0 to 0.9
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = share)]
    drop_replies: f64,
    /// Where the server remembers what it has done: sqlite or postgres
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.0..=0.9).contains(&share) {
        Ok(share)
    } else {
        Err("a share is 0 to 0.9: 0.3 drops three replies of ten".to_owned())
    }
}

/// Runs the demonstration, prints what happened and, last, one line of figures.
///
/// # Errors
///
/// Something is missing, got stuck, was lost or doubled.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.store == StoreKind::Redis {
        return Err(Error::Missing(
            "the lease server commits a lease together with its answer, which Redis cannot: choose `--store sqlite` or `--store postgres`".to_owned(),
        ));
    }
    let workspace = Workspace::load()?;
    let source = install::rabbitmq()?;
    let store = Store::open(options.store)?;
    println!("building the lease server and the lease client");
    build(&workspace, ["lease-server", "lease-client"], options.store)?;
    let (amqp_url, _server) = broker(source)?;
    let thief = Thief::before(&amqp_url, options.drop_replies)?;
    let programs = Programs::new(&workspace, amqp_url, thief.url(), store.url())?;
    let mut show = Show::new(&programs, options.requests);
    let end = show.perform();
    if end.is_err() {
        show.break_off();
    }
    let answers = show.into_answers();
    let ledger = match (programs.ledger(), &end) {
        (Err(unreadable), Ok(())) => return Err(unreadable),
        (Err(_), Err(_)) => return end,
        (Ok(ledger), _) => ledger,
    };
    let names = programs.names(options.requests);
    let report = Report::new(&names, &answers, &ledger, thief.loot());
    print!("{report}");
    end?;
    report.verdict()
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_that_would_drop_everything_is_refused() {
        assert_eq!(share("0.3"), Ok(0.3));
        for text in ["1", "-0.1", "NaN", "a third"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
