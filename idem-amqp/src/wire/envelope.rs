//! A delivery as the engine sees it.

use idem_core::Envelope;

use crate::wire::{Delivery, sessions};

impl Delivery {
    /// The message as the engine sees it.
    pub(crate) fn envelope(&self, body: Vec<u8>, expects_reply: bool) -> Envelope {
        let mut envelope = Envelope::builder(body)
            .headers(self.clone())
            .expects_reply(expects_reply)
            .session(sessions::place(self).ok().flatten())
            .extension(self.clone());
        if let Some(offset) = self.offset_in_stream() {
            // The same in the stream and in the queue to which it comes back. All partitions come back to one queue, so
            // the partition tells them apart.
            let log = self.partition().unwrap_or_else(|| self.home());
            envelope = envelope.position(format!("{log}:{offset}"));
        }
        if let Some(timestamp) = self.origin().properties.timestamp() {
            envelope = envelope.timestamp(*timestamp);
        }
        if let Some(id) = self.origin().properties.message_id() {
            envelope = envelope.id(id.as_str());
        }
        envelope.build()
    }
}
