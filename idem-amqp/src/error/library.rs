//! What the AMQP client library says, as the source of our errors.

use std::{error::Error, fmt};

use super::Source;

/// An error of the client library's, as a whole.
///
/// Its text tells its own source: so it has none here, or whoever prints a chain of causes, as anyhow does, would print
/// the broker's words twice.
#[derive(Debug)]
struct LibraryError(lapin::Error);

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for LibraryError {}

/// Makes it the source of one of our errors. Nothing else does: [`library_error`] would not find it.
pub(crate) fn said(error: lapin::Error) -> Source {
    Box::new(LibraryError(error))
}

/// What the library said, if this is of the library.
pub(crate) fn library_error<'a>(source: &'a (dyn Error + 'static)) -> Option<&'a lapin::Error> {
    let error = source.downcast_ref::<LibraryError>()?;
    Some(&error.0)
}
