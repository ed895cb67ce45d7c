//! Puts a key together, part by part.

use super::{
    Key, KeyError, KeyPart,
    encoding::{self, SEPARATOR},
};

/// A message type that knows its own key; derive it and mark the fields with `#[key]`.
///
/// ```
/// use idem_core::{Failed, IdempotencyKey, idempotent};
/// use serde::Deserialize;
///
/// #[derive(Deserialize, IdempotencyKey)]
/// struct Notice {
///     #[key]
///     customer: String,
///     #[key]
///     order_id: u64,
///     text: String,
/// }
///
/// /// Its keys are `customers.notify:CUSTOMER:ORDER_ID`.
/// #[idempotent(scope = "customers.notify")]
/// async fn notify(notice: Notice) -> Result<(), Failed> {
///     println!("to {}: {}", notice.customer, notice.text);
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which of its fields are the key",
    label = "no key",
    note = "write `#[idempotent(key = \"field\")]`, or derive `IdempotencyKey` for the message and mark its fields with `#[key]`"
)]
pub trait IdempotencyKey {
    /// Adds the key's parts, in an order that never changes.
    fn parts(&self, key: KeyBuilder) -> KeyBuilder;
}

/// A key in the making. The first thing wrong with it is what [`build`](Self::build) reports.
///
/// ```
/// use idem_core::Key;
///
/// let invoice: Option<&str> = None;
/// let key = Key::builder("orders.notify")
///     .part("customer", &7)
///     .first(&[("invoice", &invoice), ("order_id", &"o-17")])
///     .build()?;
/// assert_eq!(key.as_str(), "orders.notify:7:order_id=o-17");
/// # Ok::<_, idem_core::message::KeyError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct KeyBuilder {
    text: String,
    parts: usize,
    error: Option<KeyError>,
}

/// How many bytes the parts of most keys have, separators included.
const USUAL_PARTS: usize = 64;

impl KeyBuilder {
    pub(super) fn new(scope: &str) -> Self {
        let error = (!encoding::is_scope(scope)).then(|| KeyError::Scope {
            scope: scope.to_owned(),
        });
        let mut text = String::with_capacity(scope.len() + USUAL_PARTS);
        text.push_str(scope);
        Self {
            text,
            parts: 0,
            error,
        }
    }

    /// Adds one part; `name` is where it comes from, for the error.
    pub fn part(mut self, name: &str, value: &(impl KeyPart + ?Sized)) -> Self {
        match value.to_part() {
            None if value.is_unreadable() => self.fail(KeyError::Unreadable { part: name.into() }),
            None => self.fail(KeyError::Missing { part: name.into() }),
            Some(text) if text.is_empty() => self.fail(KeyError::Empty { part: name.into() }),
            Some(text) => self.push(|out| encoding::push_escaped(out, &text)),
        }
        self
    }

    /// Adds the first of several sources that is there and not empty, as `source=value`.
    ///
    /// The source's name is part of the key, so that the same value from two sources (an id in
    /// one message, a header in another) never makes two messages one.
    /// A source that is there and cannot be read is not passed over.
    // docs/decisions/0004
    pub fn first(mut self, sources: &[(&str, &dyn KeyPart)]) -> Self {
        let found = sources.iter().find_map(|(name, value)| {
            let text = value.to_part().filter(|text| !text.is_empty());
            (text.is_some() || value.is_unreadable()).then_some((name, text))
        });
        match found {
            Some((name, Some(text))) => self.push(|out| {
                encoding::push_escaped(out, name);
                out.push('=');
                encoding::push_escaped(out, &text);
            }),
            Some((name, None)) => self.fail(KeyError::Unreadable {
                part: (*name).into(),
            }),
            None => {
                let names: Vec<_> = sources.iter().map(|(name, _)| *name).collect();
                self.fail(KeyError::Missing {
                    part: format!("first of {}", names.join(", ")),
                });
            }
        }
        self
    }

    /// Ends the key.
    ///
    /// # Errors
    /// If the scope cannot be one, a part is empty or missing, or there is no part.
    pub fn build(self) -> Result<Key, KeyError> {
        match self.error {
            Some(error) => Err(error),
            None if self.parts == 0 => Err(KeyError::NoParts),
            None => Ok(Key(encoding::bound(self.text, Key::MAX_LEN).into())),
        }
    }

    fn push(&mut self, write: impl FnOnce(&mut String)) {
        self.text.push(SEPARATOR);
        write(&mut self.text);
        self.parts += 1;
    }

    fn fail(&mut self, error: KeyError) {
        self.error.get_or_insert(error);
    }
}
