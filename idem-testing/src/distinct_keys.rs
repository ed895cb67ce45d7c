//! `assert_distinct_keys`: two messages that ask for different work have different keys.

use idem_core::executor::ExecutionKind;

use super::Rehearsal;

/// Asserts that messages which ask for different work are all executed: that no two have the same key.
///
/// ```test_harness
/// # use idem_core::{Failed, idempotent};
/// # use idem_testing::{Message, Setup, assert_distinct_keys};
/// # #[derive(serde::Deserialize)] struct Notice { customer: u32, text: String }
/// # #[idempotent(key = ["customer", "text"], scope = "customers.notify")]
/// # async fn notify(notice: Notice) -> Result<(), Failed> { Ok(()) }
/// #[tokio::test(start_paused = true)]
/// async fn two_notices_to_one_customer_are_two() {
///     let harness = Setup::new(|| ()).handler::<notify>();
///     let notice = |text: &str| Message::json(&serde_json::json!({"customer": 7, "text": text}));
///     assert_distinct_keys(&harness, [&notice("paid"), &notice("sent")]).await;
/// }
/// ```
///
/// # Panics
/// With the key, if a message was taken for a copy of another one. Also if a message is not executed for other
/// reasons.
pub async fn assert_distinct_keys<R, const N: usize>(harness: &R, messages: [&R::Message; N])
where
    R: Rehearsal,
{
    const { assert!(N >= 2, "it takes two messages to be told apart") };
    let (run, scope) = (harness.fresh().await, harness.scope());
    for (index, message) in messages.into_iter().enumerate() {
        let ending = run.ending(message).await;
        let number = index + 1;
        let key = ending.key.as_deref().unwrap_or_default();
        assert!(
            !matches!(
                ending.kind,
                ExecutionKind::Duplicate | ExecutionKind::KeyReused
            ),
            "`{scope}` does not tell message {number} from an earlier one: both have the key `{key}`, and it \
             ended as {ending}. A part is missing from the key"
        );
        assert!(
            ending.kind == ExecutionKind::Executed,
            "`{scope}` does not execute message {number}: it ended as {ending}"
        );
    }
}
