//! What is known of a request's tries (pure).

use std::{ops::ControlFlow, time::Duration};

use super::{pending_calls::Event, reply::RawReply};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// The reply; nothing, if none is to be expected any more.
pub(super) type Answered = ControlFlow<Option<RawReply>>;

/// What is known of a request's tries.
#[derive(Debug, Default)]
pub(super) struct CallState {
    sent: u32,
    returned: u32,
    silent: u32,
    /// What went wrong last.
    last: Option<Problem>,
}

/// Why a try brought no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("no reply came within {0:?}")]
    Silent(Duration),
    #[error("the connection was lost before a reply came")]
    Lost,
    #[error("the last try came back: its queue does not exist any more")]
    Returned,
    #[error("the broker did not take the last try: {0}")]
    Refused(String),
    #[error("{0}")]
    Outage(String),
    #[error("the deadline has passed")]
    Deadline,
}

/// Why a call ended without a reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Every try came back.
    #[error("every try came back: there is no such queue")]
    Unroutable,
    /// Nothing was sent.
    #[error("nothing was sent: {0}")]
    Unsent(Source),
    /// It may have run.
    #[error("no reply came: {0}")]
    Unknown(Source),
}

impl Fault {
    /// What it is called in spans.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Unroutable => "unroutable",
            Self::Unsent(_) => "unsent",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl CallState {
    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    /// How many tries there were.
    pub(super) fn tries(&self) -> u32 {
        self.sent
    }

    /// How many tries were met with silence.
    pub(super) fn silent(&self) -> u32 {
        self.silent
    }

    /// A reply ends the call, anything else is noted.
    pub(super) fn heed(&mut self, event: Event) -> Answered {
        match event {
            Event::Replied(reply) => return ControlFlow::Break(Some(reply)),
            Event::Returned => self.note(Problem::Returned),
            Event::Refused(reason) => self.note(Problem::Refused(reason)),
        }
        ControlFlow::Continue(())
    }

    pub(super) fn note(&mut self, problem: Problem) {
        match problem {
            Problem::Silent(_) => self.silent += 1,
            Problem::Returned => self.returned += 1,
            _ => {}
        }
        self.last = Some(problem);
    }

    /// Whether no try was taken by a queue.
    pub(super) fn all_came_back(&self) -> bool {
        self.sent > 0 && self.returned == self.sent
    }

    /// What is known when no reply is waited for any more.
    pub(super) fn end(self, outage: Option<String>) -> Fault {
        if self.all_came_back() {
            return Fault::Unroutable;
        }
        let outage = outage.map(Problem::Outage);
        let last = outage.or(self.last).unwrap_or(Problem::Deadline);
        match self.sent {
            0 => Fault::Unsent(last.into()),
            _ => Fault::Unknown(last.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(fault: Fault) -> String {
        match fault {
            Fault::Unroutable => panic!("it has no cause"),
            Fault::Unsent(last) | Fault::Unknown(last) => last.to_string(),
        }
    }

    #[test]
    fn only_a_request_whose_every_try_came_back_was_taken_by_no_queue() {
        let mut state = CallState::default();
        assert!(!state.all_came_back());
        state.sent();
        state.note(Problem::Returned);
        assert!(state.all_came_back());
        state.sent();
        assert!(!state.all_came_back());
        state.note(Problem::Silent(Duration::ZERO));
        assert!(!state.all_came_back());
        assert!(matches!(state.end(None), Fault::Unknown(_)));
    }

    #[test]
    fn a_request_that_was_never_sent_has_not_run() {
        let fault = CallState::default().end(Some("the broker is away".to_owned()));
        assert!(matches!(fault, Fault::Unsent(_)));
        assert_eq!(last(fault), "the broker is away");
    }

    #[test]
    fn what_went_wrong_last_is_told() {
        let mut state = CallState::default();
        state.sent();
        state.note(Problem::Silent(Duration::from_secs(5)));
        state.sent();
        state.note(Problem::Lost);
        assert_eq!(last(state.end(None)), Problem::Lost.to_string());
    }
}
