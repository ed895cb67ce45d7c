//! `assert_idempotent_together`: messages that share a call meet every situation of `assert_idempotent`, as one message
//! does there.

use std::{borrow::Cow, fmt::Debug};

use idem_core::executor::ExecutionKind;

use super::{
    Call, CrashPoint, Ending, RehearsalTogether, assert_idempotent,
    process::not_reached,
    rehearsal::{Rehearsal, sealed},
};

/// Asserts of messages that are delivered to one worker together what [`assert_idempotent`] asserts of one: for handlers
/// of [batches](idem_core::handler::Batch). Tried with the first message, with the first two, and with all of them. The
/// worker crashes when any of them comes to the point; then each is delivered again until it is done with.
///
/// What `observe` reads must not depend on which messages share a call: after a crash each runs by itself.
///
/// ```test_harness
/// # use idem_core::{Batch, Failed, State, idempotent};
/// # use idem_testing::{Message, Setup, assert_idempotent_together};
/// # #[derive(Clone, Default)] struct Bank(std::sync::Arc<std::sync::Mutex<std::collections::BTreeSet<String>>>);
/// # #[idempotent(key = message_id(), scope = "bank.pay", batch = 16)]
/// # async fn pay(payments: Batch<String>, State(bank): State<Bank>) -> Result<(), Failed> {
/// #     tokio::task::yield_now().await;
/// #     bank.0.lock().unwrap().extend(payments.iter().map(|it| it.key().to_string()));
/// #     Ok(())
/// # }
/// #[tokio::test(start_paused = true)]
/// async fn payments_are_made_once() {
///     let harness = Setup::new(Bank::default).handler::<pay>();
///     let payments: Vec<_> = (1..=5).map(|it| Message::json("1250 cents").id(&format!("m-{it}"))).collect();
///     assert_idempotent_together(&harness, &payments, async |run| run.state().0.lock().unwrap().clone()).await;
/// }
/// ```
///
/// # Panics
/// As [`assert_idempotent`], with how many messages there were. Also if there are fewer than two.
pub async fn assert_idempotent_together<R, T>(
    harness: &R,
    messages: &[R::Message],
    observe: impl AsyncFn(&R) -> T,
) where
    R: RehearsalTogether,
    T: PartialEq + Debug,
{
    let all = messages.len();
    assert!(all >= 2, "it takes two messages to be delivered together");
    let mut sizes = vec![1, 2, all];
    sizes.dedup();
    for size in sizes {
        // Boxed: what opens a database is a large future.
        let together = Together(Box::pin(harness.fresh()).await);
        let some = messages[..size].to_vec();
        let observe = async |run: &Together<R>| observe(&run.0).await;
        Box::pin(assert_idempotent(&together, &some, observe)).await;
    }
}

/// A harness to which several messages are what one is to others.
struct Together<R>(R);

impl<R> sealed::Rehearsal for Together<R> {}

impl<R: RehearsalTogether> Rehearsal for Together<R> {
    type Message = Vec<R::Message>;

    fn scope(&self) -> &'static str {
        self.0.scope()
    }

    fn name_of(&self, messages: &Vec<R::Message>) -> Cow<'static, str> {
        match messages.len() {
            1 => self.scope().into(),
            several => format!("{}, {several} messages together", self.scope()).into(),
        }
    }

    async fn fresh(&self) -> Self {
        Self(self.0.fresh().await)
    }

    async fn forgetful(&self) -> Self {
        Self(self.0.forgetful().await)
    }

    fn again(messages: &Vec<R::Message>) -> Vec<R::Message> {
        messages.iter().map(R::again).collect()
    }

    async fn ending(&self, messages: &Vec<R::Message>) -> Ending {
        worst(self.0.endings_together(messages).await)
    }

    async fn endings_at_once(&self, messages: &Vec<R::Message>) -> [Ending; 2] {
        let both = tokio::join!(self.ending(messages), self.ending(messages));
        both.into()
    }

    async fn crash_or_end(&self, point: CrashPoint, messages: &Vec<R::Message>) -> Option<Ending> {
        let ended = self.0.crash_together_or_end(point, messages).await?;
        // A handler has as many waits as it has. Whatever it is, what is executed comes to the other points.
        let is_passed =
            matches!(point, CrashPoint::InHandler(_)) || ended.kind != ExecutionKind::Executed;
        if !is_passed {
            not_reached(point, ended.kind);
        }
        Some(ended)
    }

    fn lose_answer(&self, call: Call) {
        self.0.lose_answer(call);
    }
}

/// That of a message that is not done, if there is one; one that waits for a person comes after one that failed.
fn worst(endings: Vec<Ending>) -> Ending {
    let by_badness = |it: &Ending| (it.is_done(), it.kind == ExecutionKind::InDoubt);
    let worst = endings.into_iter().min_by_key(by_badness);
    worst.expect("there are messages")
}
