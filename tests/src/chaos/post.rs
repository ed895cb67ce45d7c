//! A worker's post: there is always a process at it, or one on its way.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use nix::sys::signal::Signal;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::{
    Fault, Injection,
    chronicle::Chronicle,
    life::{End, Life},
};
use crate::{
    journal::LIMIT,
    process::{Event, Process, Settings},
};

/// Between a process that should not have ended and the next one.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Post {
    number: usize,
    program: PathBuf,
    settings: Settings,
    process: Process,
    lives: Vec<Life>,
}

impl Post {
    /// Starts the first process.
    pub(super) fn man(number: usize, program: &Path, settings: &Settings) -> Self {
        let name = name(number, 1);
        let settings = settings.with(|settings| settings.name = name);
        Self {
            process: Process::start(program, &settings),
            program: program.to_owned(),
            lives: Vec::new(),
            number,
            settings,
        }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Works through all faults, dropping `healing` then, and on until it is told to stop.
    pub(super) async fn serve(
        mut self,
        injections: Vec<Injection>,
        chronicle: &Chronicle,
        healing: mpsc::Sender<()>,
        mut stop: watch::Receiver<bool>,
    ) -> Vec<Life> {
        for injection in injections {
            self.tend_until(chronicle.until(injection.at), chronicle)
                .await;
            chronicle.tell(injection.deed());
            self.suffer(injection).await;
        }
        drop(healing);
        let told = async {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        self.tend_until(told, chronicle).await;
        let end = self.drain().await;
        self.bury(end);
        self.lives
    }

    /// Mans the post anew whenever the process has ended by itself.
    async fn tend_until(&mut self, over: impl Future<Output = ()>, chronicle: &Chronicle) {
        let mut over = pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                status = self.process.ended_by_itself() => {
                    let end = End::unasked(status);
                    chronicle.tell(format_args!("{}: {end:?}", self.settings.name));
                    if end != End::Killed {
                        sleep(AFTER_FAILURE).await;
                    }
                    self.bury(end);
                    self.begin();
                }
            }
        }
    }

    async fn suffer(&mut self, injection: Injection) {
        let lasting = Duration::from_millis(injection.lasting);
        match injection.fault {
            Fault::Kill => {
                self.process.signal(Signal::SIGKILL);
                let end = End::unasked(self.process.exit().await);
                self.bury(end);
                sleep(lasting).await;
                self.begin();
            }
            Fault::Pause => {
                self.process.signal(Signal::SIGSTOP);
                sleep(lasting).await;
                self.process.signal(Signal::SIGCONT);
            }
            Fault::Replace => {
                let end = self.drain().await;
                self.bury(end);
                self.begin();
            }
            other => unreachable!("{other:?} is nothing that befalls a worker"),
        }
    }

    /// Tells the process to stop, and waits until it has.
    async fn drain(&mut self) -> End {
        self.process.signal(Signal::SIGTERM);
        let Ok(status) = timeout(LIMIT, self.process.ended_by_itself()).await else {
            self.process.signal(Signal::SIGKILL);
            self.process.exit().await;
            return End::Failed(format!("it did not stop within {LIMIT:?}"));
        };
        if status.success() {
            let balanced =
                |events: &[Event]| matches!(events.last(), Some(Event::WorkerStats { .. }));
            let events = &self.process.events;
            events.until("it prints its balance", balanced).await;
        }
        End::asked(status, &self.process.events.entries())
    }

    fn bury(&mut self, end: End) {
        let name = self.settings.name.clone();
        self.lives
            .push(Life::of(self.number, name, &self.process, end));
    }

    fn begin(&mut self) {
        self.settings.name = name(self.number, self.lives.len() + 1);
        self.process = Process::start(&self.program, &self.settings);
    }
}

fn name(number: usize, life: usize) -> String {
    format!("worker-{number}.{life}")
}
