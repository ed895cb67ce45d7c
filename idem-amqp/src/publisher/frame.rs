//! Whether a message's properties fit into one frame: the broker closes the connection if they do not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use lapin::types::FieldTable;

use crate::wire::Publication;
use crate::{error::PublishError, wire::frame_size::entry};

/// The largest frame that the broker takes, as far as it is known. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct LargestFrame(Arc<AtomicUsize>);

/// What RabbitMQ takes, unless it is told otherwise.
const USUAL: usize = 128 * 1024;

/// A frame's header and end, and what a content header holds beside the properties.
const ENVELOPE: usize = 8 + 14;

impl Default for LargestFrame {
    fn default() -> Self {
        Self(Arc::new(USUAL.into()))
    }
}

impl LargestFrame {
    /// A broker has said what it takes.
    pub(super) fn learn(&self, bytes: u32) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.0.store(bytes, Relaxed);
    }

    /// An error if the message's properties do not fit, with so many further bytes of headers.
    pub(super) fn check(
        &self,
        publication: &Publication,
        further: usize,
    ) -> Result<(), PublishError> {
        let (bytes, most) = (size(publication) + further, self.0.load(Relaxed));
        if bytes <= most {
            return Ok(());
        }
        Err(PublishError::TooLarge { bytes, most })
    }
}

/// The size of the frame that takes the message's properties, or a few bytes more.
fn size(publication: &Publication) -> usize {
    let properties = &publication.properties;
    let texts = [
        properties.content_type(),
        properties.content_encoding(),
        properties.correlation_id(),
        properties.reply_to(),
        properties.expiration(),
        properties.message_id(),
        properties.kind(),
        properties.user_id(),
        properties.app_id(),
        properties.cluster_id(),
    ];
    let texts = texts.into_iter().flatten();
    let texts: usize = texts.map(|text| 1 + text.as_str().len()).sum();
    let headers = properties.headers().as_ref();
    let headers = headers.map_or(0, |headers| 4 + entries(headers));
    // Flags, delivery mode, priority, timestamp.
    ENVELOPE + 2 + 1 + 1 + 8 + texts + headers
}

fn entries(headers: &FieldTable) -> usize {
    let entries = headers.inner().iter();
    entries.map(|(name, value)| entry(name, value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_header(bytes: usize) -> Publication {
        let publication = Publication::bytes("readings", *b"21.5");
        publication.header("x-note", &"x".repeat(bytes))
    }

    #[test]
    fn headers_that_do_not_fit_into_a_frame_are_an_error_that_tells_the_sizes() {
        let frame = LargestFrame::default();
        frame.check(&with_header(130_000), 100).unwrap();
        let error = frame.check(&with_header(130_000), 1000).unwrap_err();
        assert!(
            matches!(error, PublishError::TooLarge { bytes, most: 131_072 } if bytes > 131_000),
            "{error:?}"
        );
        frame.learn(4096);
        frame.check(&with_header(3900), 0).unwrap();
        frame.check(&with_header(4096), 0).unwrap_err();
    }

    #[test]
    fn a_long_body_needs_no_large_frame() {
        let publication = Publication::bytes("readings", vec![0; 1_000_000]);
        LargestFrame::default().check(&publication, 0).unwrap();
    }
}
