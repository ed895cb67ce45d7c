//! The text of an error, as much of it as is kept.

/// The longest error text that is kept, in bytes.
pub(crate) const MAX_ERROR_LEN: usize = 1024;

/// Cuts an error text to [`MAX_ERROR_LEN`].
pub(crate) fn cut_error(mut error: String) -> String {
    error.truncate(error.floor_char_boundary(MAX_ERROR_LEN));
    error
}
