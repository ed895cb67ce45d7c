//! The contract of stores that tell what they know of a key, without claiming it.

use serde::de::DeserializeOwned;

use crate::{
    handler::{Answer, Outcome, Refusal},
    message::Key,
    store::{Store, StoreError},
};

mod key_record;

pub use key_record::{Condition, FailedReason, KeyRecord, KeyState};

/// A store that tells what it knows of a key: for a page, a support tool or a test that wants to know what became of a
/// message. The operator's command asks it, too.
///
/// An implementation keeps these rules beside those of [`Store`]; the conformance suite (list `Look`, and
/// `TransactionalLooks` for rule 4) holds it to them.
///
/// 1. A key that is recorded is told as it is: its state, its attempts, its times and its outcome. One whose retention
///    has ended may be told until it is purged, with nothing left to [remember](KeyRecord::remembered_for) it for.
/// 2. A key that is not recorded is `None`.
/// 3. Looking changes nothing: no lease and no retention gets longer, and nothing is claimed.
/// 4. What a handler's transaction has written and not committed is not told.
///
/// What is told is so at one moment. Whoever looks, and then does the work because nobody has done it, does it twice:
/// only a [claim](Store::claim) decides who works.
///
/// A cache asks the store behind it: nothing is told from memory. No store knows what a handler that is [recorded by
/// its own table](crate::handler::RecordedBy) has done: look into that table. Of a sequence it tells numbers above the
/// [mark](crate::store::SequenceStore) only.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use idem_core::{Key, MemoryStore, store::{KeyState, Look}};
///
/// let store = MemoryStore::new();
/// let key = Key::new("orders.charge", "o-17")?;
/// let said = match store.look(&key).await? {
///     None => "it never came, or it is forgotten".to_owned(),
///     Some(known) if known.record.state() == KeyState::Completed => {
///         format!("charged at {:?}, receipt {:?}", known.record.completed_at, known.output::<String>())
///     }
///     Some(known) => format!("{}, attempts: {}", known.record.state(), known.record.attempts),
/// };
/// assert_eq!(said, "it never came, or it is forgotten");
/// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Cancel safety
/// A look may be dropped.
pub trait Look: Store {
    /// What is known of a key; `None` if nothing is.
    ///
    /// # Errors
    /// If the store cannot tell.
    fn look(&self, key: &Key) -> impl Future<Output = Result<Option<Looked>, StoreError>> + Send;
}

/// What a store knows of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Looked {
    /// State, attempts and times.
    pub record: KeyRecord,
    /// What is remembered of it, if it is completed.
    pub outcome: Option<Outcome>,
}

impl Looked {
    /// For store implementations: a record, and its outcome if it is completed.
    pub fn new(record: KeyRecord, outcome: Option<Outcome>) -> Self {
        Self { record, outcome }
    }

    /// What the handler returned; `None` if the key is not completed.
    ///
    /// # Errors
    /// The refusal that is remembered instead, if the handler has rejected the message, or if its output could not be
    /// kept; and [`Refusal::OUTCOME_OUTDATED`] if what is remembered is no `T`.
    pub fn output<T: DeserializeOwned>(&self) -> Result<Option<T>, Refusal> {
        match self.outcome.as_ref().map(Outcome::answer) {
            None => Ok(None),
            Some(Answer::Output(bytes)) => {
                serde_json::from_slice(bytes).map(Some).map_err(|error| {
                    let message = format!("the remembered output is not of this type: {error}");
                    Refusal::new(Refusal::OUTCOME_OUTDATED, message)
                })
            }
            Some(Answer::Rejected(refusal) | Answer::Forgotten(refusal)) => Err(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::FencingToken;

    fn completed(outcome: Outcome) -> Looked {
        let key = Key::new("orders.charge", "o-17").unwrap();
        let condition = Condition::Completed { outcome_bytes: 0 };
        let record = KeyRecord::new(key, FencingToken::new(1), condition);
        Looked::new(record, Some(outcome))
    }

    #[test]
    fn an_output_is_told_as_the_type_that_is_asked_for() {
        let known = completed(Outcome::json(&17).unwrap());
        assert_eq!(known.output(), Ok(Some(17)));
        let refusal = known.output::<String>().unwrap_err();
        assert_eq!(refusal.code(), Refusal::OUTCOME_OUTDATED);
    }

    #[test]
    fn a_rejection_is_no_output() {
        let rejected = Refusal::rejected("no such customer");
        let known = completed(Outcome::rejected(&rejected));
        assert_eq!(known.output::<u32>(), Err(rejected));
    }

    #[test]
    fn what_is_not_completed_has_no_output() {
        let mut known = completed(Outcome::default());
        known.outcome = None;
        assert_eq!(known.output::<u32>(), Ok(None));
    }
}
