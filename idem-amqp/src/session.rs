//! Requests that a client numbers, so that a crash of either side leaves none of them in doubt.
//!
//! You need it where the client must learn, after its own restart too, what became of each request.
//! A client opens a [`Session`] and keeps it in a [`SessionStorage`]; the worker consumes with
//! [`Sessions`]. `docs/replies.md` tells the whole story.
//!
//! ```no_run
//! use idem_amqp::{Client, Request, session::FileSessionStorage};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct CreateLease { name: String }
//!
//! impl Request for CreateLease {
//!     type Reply = u64;
//!     type Error = String;
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("amqp://127.0.0.1:5672/%2f", "leases").await?;
//! let storage = FileSessionStorage::open("leases.session").await?;
//! let session = client.session().keep_in(storage).open().await?;
//! let lease = session.call(&CreateLease { name: "ann".into() }).await?;
//! println!("lease {}", lease.reply);
//! # Ok(()) }
//! ```

#[doc(inline)]
pub use crate::{
    client::{RequestNumber, Session, SessionBuilder, SessionCall, SessionError, Unanswered},
    wire::{SessionStats, Sessions},
};
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use idem_core::session_storage::SqliteSessionStorage;
#[doc(inline)]
pub use idem_core::session_storage::{
    FileSessionStorage, LocationGuard, SessionStorage, SessionStorageError, StorageLocation,
    StoredRequest, StoredSession,
};
