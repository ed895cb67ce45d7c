//! What is said on standard output: one line per answer, and a summary.

use idem_amqp::{
    client::{CallError, Replied},
    session::Session,
};
use lease_contract::{Lease, LeaseError};
use serde_json::json;

/// What came of a request.
pub(crate) type Answer = Result<Replied<Lease>, CallError<LeaseError>>;

#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    granted: u64,
    replayed: u64,
    taken: u64,
    unanswered: u64,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            granted: 0,
            replayed: 0,
            taken: 0,
            unanswered: 0,
        }
    }

    pub(crate) fn opened(&self, session: &Session, begun: u64) {
        let (id, in_flight) = (session.id(), session.unanswered().len());
        if self.json {
            let opened = json!({"session": id, "begun": begun, "in_flight": in_flight});
            println!("{opened}");
        } else if begun == 0 {
            println!("session {id}, {} requests at once", session.window());
        } else {
            println!(
                "session {id} goes on: {begun} requests were made, {in_flight} were in flight"
            );
        }
    }

    pub(crate) fn answer(&mut self, name: &str, answer: &Answer) {
        match answer {
            Ok(Replied {
                reply, replayed, ..
            }) => self.granted(name, reply.id, *replayed),
            Err(CallError::Refused(LeaseError::Taken { by })) => self.taken(name, by),
            Err(error) => self.unanswered(name, error),
        }
    }

    fn granted(&mut self, name: &str, id: i64, replayed: bool) {
        self.granted += 1;
        self.replayed += u64::from(replayed);
        if self.json {
            println!(
                "{}",
                json!({"name": name, "lease": id, "replayed": replayed})
            );
        } else {
            let replayed = if replayed { ", replayed" } else { "" };
            println!("{name}: lease {id}{replayed}");
        }
    }

    fn taken(&mut self, name: &str, by: &str) {
        self.taken += 1;
        if self.json {
            println!("{}", json!({"name": name, "taken_by": by}));
        } else {
            println!("{name}: {by} has it");
        }
    }

    fn unanswered(&mut self, name: &str, error: &CallError<LeaseError>) {
        self.unanswered += 1;
        if self.json {
            println!("{}", json!({"name": name, "error": error.to_string()}));
        } else {
            println!("{name}: {error}");
        }
    }

    /// Whether every request was answered.
    pub(crate) fn end(&self) -> bool {
        let Self {
            granted,
            replayed,
            taken,
            unanswered,
            ..
        } = self;
        if self.json {
            println!("{}", json!({"done": true, "unanswered": unanswered}));
        } else {
            println!(
                "{granted} leases ({replayed} answers were replayed), {taken} refused, \
                 {unanswered} unanswered"
            );
        }
        *unanswered == 0
    }
}
