//! What can stand in a key.

use std::{borrow::Cow, rc::Rc, sync::Arc};

/// A value that can be a part of a key: it has one exact text.
///
/// Strings, integers, `bool` and `char`, references and options of these, and `uuid::Uuid` with
/// the feature `uuid`. Implement it for an id type of your own:
///
/// ```
/// use std::borrow::Cow;
/// use idem_core::message::KeyPart;
///
/// struct OrderId(u64);
///
/// impl KeyPart for OrderId {
///     fn to_part(&self) -> Option<Cow<'_, str>> {
///         self.0.to_part()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    label = "not a key part",
    note = "key parts are strings, integers, `bool`, `char`, `uuid::Uuid` (feature `uuid`) and options of these; a float has no exact text",
    note = "for an id type of your own, implement `KeyPart`: `fn to_part(&self) -> Option<Cow<'_, str>>`"
)]
pub trait KeyPart {
    /// The value's text; `None` if there is no value, which makes the message keyless.
    fn to_part(&self) -> Option<Cow<'_, str>>;

    /// Whether there is a value that has no text, which makes the message keyless: a key without it, or from another
    /// source, could be another message's.
    #[doc(hidden)]
    fn is_unreadable(&self) -> bool {
        false
    }
}

impl KeyPart for str {
    fn to_part(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self))
    }
}

impl KeyPart for String {
    fn to_part(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self))
    }
}

impl KeyPart for Cow<'_, str> {
    fn to_part(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self))
    }
}

impl<T: KeyPart> KeyPart for Option<T> {
    fn to_part(&self) -> Option<Cow<'_, str>> {
        self.as_ref().and_then(KeyPart::to_part)
    }

    fn is_unreadable(&self) -> bool {
        self.as_ref().is_some_and(KeyPart::is_unreadable)
    }
}

macro_rules! by_deref {
    ($($pointer:ty),*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $pointer {
            fn to_part(&self) -> Option<Cow<'_, str>> {
                (**self).to_part()
            }

            fn is_unreadable(&self) -> bool {
                (**self).is_unreadable()
            }
        }
    )*};
}

by_deref!(&T, Box<T>, Rc<T>, Arc<T>);

macro_rules! by_display {
    ($($value:ty),*) => {$(
        impl KeyPart for $value {
            fn to_part(&self) -> Option<Cow<'_, str>> {
                Some(Cow::Owned(self.to_string()))
            }
        }
    )*};
}

by_display!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, bool, char
);

#[cfg(feature = "uuid")]
by_display!(uuid::Uuid);
