//! The recipe of `docs/how-often.md` for an effect that may be missing and must not be doubled.

use idem_amqp::{executor::ExecutionKind as Kind, prelude::*};
use idem_tests::{
    bed::Bed,
    cell::Cell,
    journal::Journal,
    leased_on_each_store,
    queue_type::tested,
    running::{Running, assert_balance},
    script::Order,
};

/// Writes down what leaves; an order's id says what is wrong with it.
#[derive(Debug, Clone, Default)]
struct Mail {
    looked_up: Journal<String>,
    sent: Journal<String>,
}

impl Mail {
    /// Fails once: nothing has been sent then.
    fn look_up(&self, id: &str) -> Result<(), String> {
        self.looked_up.write(id.to_owned());
        let lookups = self.looked_up.entries();
        let first = lookups.iter().filter(|one| *one == id).count() == 1;
        if id == "no address at first" && first {
            return Err("the directory is away".to_owned());
        }
        Ok(())
    }

    /// Sends in any case, and does not always say so.
    async fn send(&self, id: String) -> Result<(), String> {
        self.sent.write(id.clone());
        match id.as_str() {
            "no answer" => Err("the connection was reset".to_owned()),
            "never an answer" | "killed meanwhile" => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

#[idempotent(
    key = "id",
    scope = "mail.remind",
    in_doubt = "quarantine",
    timeout = "2s",
    lease = "2s",
    backoff = "20ms"
)]
async fn remind(order: Order, State(mail): State<Mail>) -> Result<(), Failed> {
    mail.look_up(&order.id).map_err(Failed::retry)?;
    // Without an answer it may have left all the same: whatever came of it, the message is done.
    let _ = mail.send(order.id).await;
    Ok(())
}

fn reminding<C: Cell>(cell: &C, bed: &Bed, mail: &Mail) -> Running {
    let worker = Worker::builder(cell.store()).state(mail.clone());
    bed.start(worker.consume::<remind>(tested(bed.name())))
}

/// A handler by the recipe for at most once fails before its effect, gets no answer to it, is stopped or killed after
/// it; copies come.
///
/// - does: runs again what failed before its effect; completes what got no answer; dead-letters, `in-doubt`, what was
///   stopped or killed, and its copies
/// - atomic: not what the recipe is for
/// - leased: effect at most once
async fn what_follows_the_recipe_takes_effect_at_most_once<C: Cell>() {
    let (bed, cell, mail) = (Bed::new().await, C::open().await, Mail::default());
    let dying = reminding(&cell, &bed, &mail);
    bed.order("killed meanwhile").await;
    mail.sent.count("a mail is on its way", 1).await;
    dying.vanish().await;

    let worker = reminding(&cell, &bed, &mail);
    for id in [
        "fine",
        "no address at first",
        "no answer",
        "never an answer",
    ] {
        bed.order(id).await;
    }
    worker.ended(Kind::Executed, 3).await;
    worker.ended(Kind::InDoubt, 2).await;
    // A copy of each.
    for id in mail.sent.entries() {
        bed.order(&id).await;
    }
    worker.ended(Kind::Duplicate, 3).await;
    worker.ended(Kind::InDoubt, 4).await;
    let expected = [
        (Kind::Executed, 3),
        (Kind::Duplicate, 3),
        (Kind::InDoubt, 4),
        (Kind::Failed, 1),
    ];
    assert_balance(&worker.stop().await, expected);

    for _ in 0..4 {
        assert_eq!(bed.dead_letter().await.reason(), "in-doubt");
    }
    let mut sent = mail.sent.entries();
    sent.sort_unstable();
    let once = [
        "fine",
        "killed meanwhile",
        "never an answer",
        "no address at first",
        "no answer",
    ];
    assert_eq!(sent, once);
    bed.assert_nothing_stuck().await;
}

leased_on_each_store! {
    what_follows_the_recipe_takes_effect_at_most_once,
}
