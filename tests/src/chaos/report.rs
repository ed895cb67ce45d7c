//! The verdict on a run, in words.

use std::{collections::BTreeMap, fmt, fs, io, path::PathBuf};

use super::{
    Plan,
    history::History,
    life::{End, Life},
    orders::Orders,
    tally::{Evidence, Tally},
};
use crate::process::Event;

/// What became of the orders of a run, and of its workers.
#[derive(Debug)]
pub struct Report {
    plan: Plan,
    tally: Tally,
    lives: Vec<Life>,
    /// What went wrong beside what happened to orders.
    findings: Vec<String>,
    history: History,
}

impl Report {
    pub(super) fn new(
        plan: &Plan,
        orders: &Orders,
        evidence: &Evidence,
        lives: Vec<Life>,
        mut findings: Vec<String>,
    ) -> Self {
        let tally = Tally::of(orders.manners(), evidence);
        findings.extend(lives.iter().filter_map(complaint));
        Self {
            history: History::of(&tally, orders, evidence, &lives),
            plan: plan.clone(),
            tally,
            lives,
            findings,
        }
    }

    /// Whether nothing was lost, doubled or stuck, and every worker ended as it should.
    pub fn is_clean(&self) -> bool {
        self.tally.is_clean() && self.findings.is_empty()
    }

    /// How many orders were lost.
    pub fn lost(&self) -> usize {
        self.tally.lost.len()
    }

    /// How many orders took effect once too often, without an excuse.
    pub fn doubled(&self) -> usize {
        self.tally.doubled.len()
    }

    /// How many orders were on their way when time was up.
    pub fn stuck(&self) -> usize {
        self.tally.stuck.len()
    }

    /// How often a handler was called with several orders at once.
    pub fn batches(&self) -> usize {
        self.count(|event| matches!(event, Event::Batch { messages } if *messages > 1))
    }

    /// Writes what the workers logged to files that stay, and says in which folder.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_logs(&self) -> io::Result<PathBuf> {
        let folder = tempfile::Builder::new().prefix("idem-chaos-").tempdir()?;
        for life in &self.lives {
            let file = folder.path().join(format!("{}.log", life.name));
            fs::write(file, life.log.entries().join("\n"))?;
        }
        Ok(folder.keep())
    }

    /// How many events took effect, and how many came beside them because they were published again.
    fn events(&self) -> (usize, usize) {
        let count = |wanted: &str| {
            let of_events = self.lives.iter().filter(|it| it.post > self.plan.workers);
            let events = of_events.flat_map(|life| life.events.entries());
            // What is delivered again was not published again.
            let so = |event: &Event| match event {
                Event::Ended {
                    kind, redelivered, ..
                } => kind == wanted && (wanted == "executed" || !redelivered),
                _ => false,
            };
            events.filter(so).count()
        };
        (count("executed"), count("duplicate"))
    }

    fn redeliveries(&self) -> usize {
        self.count(|event| matches!(event, Event::Ended { redelivered, .. } if *redelivered))
    }

    fn count(&self, so: impl Fn(&Event) -> bool) -> usize {
        let events = self.lives.iter().flat_map(|life| life.events.entries());
        events.filter(so).count()
    }

    /// Of all workers that drained.
    fn balance(&self) -> BTreeMap<&str, u64> {
        let mut sum = BTreeMap::new();
        for life in &self.lives {
            if let End::Drained { balance, .. } = &life.end {
                for (kind, count) in balance {
                    *sum.entry(kind.as_str()).or_default() += count;
                }
            }
        }
        sum
    }
}

fn complaint(life: &Life) -> Option<String> {
    let what = match &life.end {
        End::Killed | End::Unborn | End::Drained { even: true, .. } => return None,
        End::Drained { balance, .. } => format!("uneven: {balance:?}"),
        End::Failed(how) => how.clone(),
    };
    Some(format!("{}: {what}", life.name))
}

/// What to look at if something is wrong, and then two lines of figures.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_clean() {
            writeln!(f, "{}\n{}", self.plan, self.plan.schedule())?;
            write!(f, "{}", self.history)?;
            let mut findings = self.findings.iter();
            findings.try_for_each(|finding| writeln!(f, "{finding}"))?;
        }
        let drained = |life: &&Life| matches!(life.end, End::Drained { .. });
        let stopped = self.lives.iter().filter(drained).count();
        write!(f, "{stopped} of {} workers drained:", self.lives.len())?;
        let mut balance = self.balance().into_iter();
        balance.try_for_each(|(kind, count)| write!(f, " {kind}={count}"))?;
        let tally = &self.tally;
        write!(
            f,
            "\npublished={} effects={} lost={} doubled={} stuck={} dead={} redeliveries={}",
            tally.published,
            tally.effects,
            tally.lost.len(),
            tally.doubled.len(),
            tally.stuck.len(),
            tally.dead,
            self.redeliveries(),
        )?;
        if self.plan.mode.is_batched() {
            write!(f, " batches={}", self.batches())?;
        }
        if self.plan.outbox {
            let (events, repeats) = self.events();
            write!(f, " events={events} repeats={repeats}")?;
        }
        if !tally.excused.is_empty() {
            write!(f, " excused={}", tally.excused.len())?;
        }
        writeln!(f)
    }
}
