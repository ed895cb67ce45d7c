//! What a reply says (pure).

use std::any::type_name;

use idem_core::{Request, handler::Refusal};
use lapin::{BasicProperties, types::AMQPValue};
use serde::Deserialize as _;

use super::error::CallError;
use crate::wire::headers;

/// A request's reply.
///
/// ```
/// use idem_amqp::client::Replied;
///
/// fn tell(lease: &Replied<u64>) {
///     let again = if lease.replayed { ", as it was answered before" } else { "" };
///     println!("lease {}{again}", lease.reply);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Replied<T> {
    /// The handler's output.
    pub reply: T,
    /// Whether it was repeated from memory: the request had been handled before, when an earlier try
    /// of this call arrived, or an earlier call with the same key. It was not handled again.
    pub replayed: bool,
}

/// A reply as it came.
#[derive(Debug)]
pub(super) struct RawReply {
    pub(super) body: Vec<u8>,
    pub(super) replayed: bool,
    /// Its code, if it is a refusal. Empty if the code is no text.
    refusal: Option<String>,
    /// Whether the request was delivered before, and may have been handled then.
    pub(super) redelivered: bool,
}

impl RawReply {
    pub(super) fn new(body: Vec<u8>, properties: Option<&BasicProperties>) -> Self {
        let headers = properties.and_then(|properties| properties.headers().as_ref());
        let header = |name| headers.and_then(|headers| headers.inner().get(name));
        Self {
            body,
            replayed: header(headers::REPLAYED) == Some(&AMQPValue::Boolean(true)),
            refusal: header(headers::REFUSAL).map(text),
            redelivered: header(headers::REDELIVERED) == Some(&AMQPValue::Boolean(true)),
        }
    }

    pub(super) fn is_refusal(&self) -> bool {
        self.refusal.is_some()
    }

    /// Whether it is a refusal with this code.
    pub(super) fn is_refused_as(&self, code: &str) -> bool {
        self.refusal.as_deref() == Some(code)
    }

    /// The reply, or the refusal, in the request's types.
    pub(super) fn read<R: Request>(self) -> Result<Replied<R::Reply>, CallError<R::Error>> {
        if self.is_refusal() {
            return Err(self.refusal::<R>());
        }
        match serde_json::from_slice(&self.body) {
            Ok(reply) => Ok(Replied {
                reply,
                replayed: self.replayed,
            }),
            Err(error) => Err(undecodable::<R::Reply, _>(self.body, error)),
        }
    }

    fn refusal<R: Request>(self) -> CallError<R::Error> {
        let refusal: Refusal = match serde_json::from_slice(&self.body) {
            Ok(refusal) => refusal,
            Err(error) => return undecodable::<Refusal, _>(self.body, error),
        };
        let Some(error) = refusal.error() else {
            return CallError::Failed {
                code: refusal.code().to_owned(),
                message: refusal.message().to_owned(),
            };
        };
        match R::Error::deserialize(error) {
            Ok(error) => CallError::Refused(error),
            Err(error) => undecodable::<R::Error, _>(self.body, error),
        }
    }
}

fn text(value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        _ => String::new(),
    }
}

fn undecodable<T, E>(body: Vec<u8>, error: serde_json::Error) -> CallError<E> {
    CallError::Reply {
        expected: type_name::<T>(),
        body,
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldTable;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Grant {
        name: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Denied {
        Taken { by: String },
    }

    impl Request for Grant {
        type Reply = u64;
        type Error = Denied;
    }

    fn reply(body: &serde_json::Value, headers: &[(&str, AMQPValue)]) -> RawReply {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), value.clone());
        }
        let properties = BasicProperties::default().with_headers(table);
        RawReply::new(body.to_string().into_bytes(), Some(&properties))
    }

    fn refusal(body: &serde_json::Value) -> CallError<Denied> {
        let code = AMQPValue::LongString("rejected".into());
        let replayed = AMQPValue::Boolean(false);
        let headers = [(headers::REFUSAL, code), (headers::REPLAYED, replayed)];
        reply(body, &headers).read::<Grant>().unwrap_err()
    }

    #[test]
    fn a_reply_is_typed_and_says_whether_it_is_repeated() {
        for (header, replayed) in [
            (AMQPValue::Boolean(true), true),
            (AMQPValue::Boolean(false), false),
            (AMQPValue::LongString("true".into()), false),
        ] {
            let replied = reply(&json!(7), &[(headers::REPLAYED, header)]).read::<Grant>();
            assert_eq!(replied.unwrap(), Replied { reply: 7, replayed });
        }
        // Of a server that is not idem's.
        let replied = RawReply::new(b"7".to_vec(), None).read::<Grant>().unwrap();
        assert_eq!((replied.reply, replied.replayed), (7, false));
    }

    #[test]
    fn a_refusal_is_typed_where_it_has_an_error() {
        let error = json!({"Taken": {"by": "me"}});
        let body = json!({"code": "rejected", "message": "taken", "error": error});
        match refusal(&body) {
            CallError::Refused(Denied::Taken { by }) => assert_eq!(by, "me"),
            other => panic!("{other:?}"),
        }
        match refusal(&json!({"code": "exhausted", "message": "no luck"})) {
            CallError::Failed { code, message } => {
                assert_eq!((&*code, &*message), (Refusal::EXHAUSTED, "no luck"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_does_not_decode_is_told_with_its_type_and_kept() {
        let read = |body: &serde_json::Value| match reply(body, &[]).read::<Grant>().unwrap_err() {
            CallError::Reply { expected, body, .. } => (expected, body),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(&json!("seven")), ("u64", b"\"seven\"".to_vec()));
        let body = json!({"code": "rejected", "message": "taken", "error": "Lost"});
        match refusal(&body) {
            CallError::Reply { expected, .. } => {
                assert!(expected.ends_with("Denied"), "{expected}");
            }
            other => panic!("{other:?}"),
        }
        match refusal(&json!("rejected")) {
            CallError::Reply { expected, .. } => {
                assert!(expected.ends_with("Refusal"), "{expected}");
            }
            other => panic!("{other:?}"),
        }
    }
}
