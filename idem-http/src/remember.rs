//! What a response says about its request.

use http::StatusCode;

/// What a response says about its request. A handler says it of one response by an extension of that type; the layer by
/// [`IdempotencyLayer::remember`](crate::IdempotencyLayer::remember).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remember {
    /// It is done: what was written is committed, and copies are answered with this response.
    Done,
    /// It is done: what was written is committed. The response is for this client alone: copies are answered with 409.
    DoneNotKept,
    /// It is refused for good: what was written is rolled back, and copies are answered with this response.
    Refused,
    /// It has failed: what was written is rolled back, and the key is free for another attempt, at once.
    Failed,
}

impl Remember {
    /// Done up to 399, refused from 400, failed if the same request may do better later, or with other headers: 401,
    /// 405, 406, 408, 412, 421, 423, 425, 426, 428, 429 and from 500.
    pub fn by_status(status: StatusCode) -> Self {
        match status.as_u16() {
            401 | 405 | 406 | 408 | 412 | 421 | 423 | 425 | 426 | 428 | 429 | 500.. => Self::Failed,
            400.. => Self::Refused,
            _ => Self::Done,
        }
    }

    /// Whether nothing of the response itself is stored.
    pub(crate) fn keeps_nothing(self) -> bool {
        matches!(self, Self::DoneNotKept | Self::Failed)
    }

    /// The same of a response that must not be stored.
    pub(crate) fn without_response(self) -> Self {
        match self {
            Self::Done | Self::DoneNotKept => Self::DoneNotKept,
            // Whether it is refused is asked again, as the response says.
            Self::Refused | Self::Failed => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_is_remembered() {
        for (status, expected) in [
            (200, Remember::Done),
            (201, Remember::Done),
            (204, Remember::Done),
            (303, Remember::Done),
            (400, Remember::Refused),
            (404, Remember::Refused),
            (409, Remember::Refused),
            (422, Remember::Refused),
            (401, Remember::Failed),
            (405, Remember::Failed),
            (423, Remember::Failed),
            (408, Remember::Failed),
            (425, Remember::Failed),
            (429, Remember::Failed),
            (500, Remember::Failed),
            (503, Remember::Failed),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(Remember::by_status(status), expected, "{status}");
        }
    }
}
