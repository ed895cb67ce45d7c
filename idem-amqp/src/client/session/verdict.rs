//! What became of a session's request (pure).
// docs/decisions/0020

use std::time::Duration;

use idem_core::handler::Refusal;

use super::super::{call_state::Fault, ongoing_call::ReceivedReply, reply::RawReply};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What is known beside the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// It may have been sent before this call.
    pub(super) doubtful: bool,
    /// How long this call has taken at most since it was sent.
    pub(super) since: Duration,
    /// How long its session lives without a sign of life.
    pub(super) life: Duration,
    /// This client has closed the session.
    pub(super) closed: bool,
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is answered, and its number done with.
    Answered(RawReply),
    /// The session has ended, and it was not handled.
    Expired,
    /// The session has ended, and nobody knows.
    Ended(Source),
    /// Its number is below the mark: nobody knows.
    Stale(Source),
    /// No queue took it, so that it was not handled.
    Unroutable,
    /// It was not sent.
    Unsent(Source),
    /// Nobody knows yet.
    Open(Source),
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("the session has ended, and an earlier copy of the request may have been handled")]
    Expired,
    #[error("the server takes the request's number for one whose answer was not awaited any more")]
    Stale,
    #[error("no queue took it this time")]
    Unroutable,
}

pub(super) fn judge(told: Result<ReceivedReply, Fault>, known: Known) -> Verdict {
    match told {
        Ok(told) if told.reply.is_refused_as(Refusal::SESSION_EXPIRED) => {
            if known.never_ran(told.tries) && !told.reply.redelivered {
                Verdict::Expired
            } else {
                Verdict::Ended(Why::Expired.into())
            }
        }
        Ok(told) if told.reply.is_refused_as(Refusal::STALE) => Verdict::Stale(Why::Stale.into()),
        Ok(told) => Verdict::Answered(told.reply),
        Err(Fault::Unknown(last)) => Verdict::Open(last),
        Err(Fault::Unsent(last)) if known.doubtful => Verdict::Open(last),
        Err(Fault::Unroutable) if known.doubtful => Verdict::Open(Why::Unroutable.into()),
        Err(Fault::Unsent(last)) => Verdict::Unsent(last),
        Err(Fault::Unroutable) => Verdict::Unroutable,
    }
}

impl Known {
    /// Whether a request whose session has ended cannot have been handled while it lived. Had it been,
    /// its claim would have been a sign of life, and the session could not have ended since: not even
    /// for a copy that the broker delivers again after its first worker has died.
    fn never_ran(self, tries: u32) -> bool {
        !self.doubtful && !self.closed && tries == 1 && self.since < self.life
    }
}

#[cfg(test)]
mod tests {
    use idem_core::handler::Refusal;
    use lapin::{
        BasicProperties,
        types::{AMQPValue, FieldTable},
    };

    use super::*;
    use crate::wire::headers;

    const MINUTE: Duration = Duration::from_mins(1);

    const FRESH: Known = Known {
        doubtful: false,
        since: Duration::from_secs(5),
        life: MINUTE,
        closed: false,
    };

    const DOUBTFUL: Known = Known {
        doubtful: true,
        ..FRESH
    };

    fn told(code: Option<&str>, tries: u32) -> ReceivedReply {
        told_of(code, tries, false)
    }

    fn told_of(code: Option<&str>, tries: u32, redelivered: bool) -> ReceivedReply {
        let mut table = FieldTable::default();
        let value = AMQPValue::Boolean(redelivered);
        table.insert(headers::REDELIVERED.into(), value);
        if let Some(code) = code {
            let code = AMQPValue::LongString(code.into());
            table.insert(headers::REFUSAL.into(), code);
        }
        let properties = BasicProperties::default().with_headers(table);
        let reply = RawReply::new(b"1".to_vec(), Some(&properties));
        ReceivedReply { reply, tries }
    }

    #[test]
    fn a_request_of_an_ended_session_has_not_run_only_if_it_was_sent_once_less_than_a_life_ago() {
        let table = [
            (FRESH, 1, true),
            (FRESH, 2, false),
            (DOUBTFUL, 1, false),
            (
                Known {
                    closed: true,
                    ..FRESH
                },
                1,
                false,
            ),
            (
                Known {
                    since: MINUTE,
                    ..FRESH
                },
                1,
                false,
            ),
        ];
        for (known, tries, never_ran) in table {
            match judge(Ok(told(Some(Refusal::SESSION_EXPIRED), tries)), known) {
                Verdict::Expired => assert!(never_ran, "{known:?} {tries}"),
                Verdict::Ended(_) => assert!(!never_ran, "{known:?} {tries}"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// The store may have lost the session since, or its clock have jumped.
    #[test]
    fn a_request_that_was_delivered_before_may_have_run_whatever_became_of_its_session() {
        let told = told_of(Some(Refusal::SESSION_EXPIRED), 1, true);
        let verdict = judge(Ok(told), FRESH);
        assert!(matches!(verdict, Verdict::Ended(_)), "{verdict:?}");
    }

    #[test]
    fn a_stale_request_is_nobodys_to_tell_and_any_other_reply_answers_it() {
        for known in [FRESH, DOUBTFUL] {
            let stale = judge(Ok(told(Some(Refusal::STALE), 1)), known);
            assert!(matches!(stale, Verdict::Stale(_)), "{stale:?}");
            for code in [None, Some(Refusal::BEYOND_WINDOW), Some("rejected")] {
                let answered = judge(Ok(told(code, 2)), known);
                assert!(matches!(answered, Verdict::Answered(_)), "{answered:?}");
            }
        }
    }

    #[test]
    fn what_may_have_been_sent_before_is_not_called_unsent() {
        let unsent = || Err(Fault::Unsent("the broker is away".into()));
        for (told, known, expected) in [
            (unsent(), FRESH, "Unsent"),
            (unsent(), DOUBTFUL, "Open"),
            (Err(Fault::Unroutable), FRESH, "Unroutable"),
            (Err(Fault::Unroutable), DOUBTFUL, "Open"),
            (Err(Fault::Unknown("silence".into())), FRESH, "Open"),
        ] {
            let verdict = format!("{:?}", judge(told, known));
            assert!(verdict.starts_with(expected), "{verdict}");
        }
    }
}
