//! A unique constraint of the handler's own table says what was handled.

use std::{fmt, sync::Arc, time::Duration};

use idem_core::{
    handler::RecordedRow,
    store::{Finish, Finished, Lease, Open, RecordedByError, RecordedByStore, TransactionalStore},
};

use super::{
    EntityHarness, Harness, LEASE, Rule, Scene, TransactionalHarness, open::roll_back,
    scene::unique,
};

/// How long a statement waits for a lock.
const WAIT: Duration = Duration::from_secs(10);

type Transaction<H> =
    <<H as Harness>::Store as TransactionalStore<<H as TransactionalHarness>::Tx>>::Transaction;

/// An entity that no other case has, and how many of the handler's other writes are committed.
struct Row<'a, H: EntityHarness> {
    scene: Scene<'a, H>,
    store: Arc<H::Store>,
    entity: RecordedRow,
}

/// Not the database's.
#[derive(Debug)]
struct Another;

impl fmt::Display for Another {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another error")
    }
}

impl std::error::Error for Another {}

impl<'a, H: EntityHarness> Row<'a, H> {
    fn new(harness: &'a H, rule: Rule) -> Self {
        let scene = Scene::new(harness, rule);
        let store = scene.store();
        let entity = RecordedRow::new(H::CONSTRAINT, vec![unique()]);
        Self {
            scene,
            store,
            entity,
        }
    }

    fn name(&self) -> &str {
        &self.entity.parts[0]
    }

    async fn open(&self) -> Transaction<H> {
        let recorded = Open::Recorded {
            entity: &self.entity,
            wait: WAIT,
        };
        let open = TransactionalStore::<H::Tx>::open(&*self.store, recorded).await;
        Rule::Recorded.answer(open)
    }

    /// What a handler does: its entity, and something else.
    async fn handled(&self, effect: &str) -> Transaction<H> {
        let mut open = self.open().await;
        let inserted = H::insert_entity(H::Store::lend(&mut open), self.name()).await;
        if let Err(error) = inserted {
            panic!("{}\n  here: the entity is new: {error}", Rule::Recorded);
        }
        H::write_effect(H::Store::lend(&mut open), effect).await;
        open
    }

    async fn commit(&self, open: Transaction<H>, lease: Option<&Lease>) -> Finished {
        let record = Finish::Record {
            entity: &self.entity,
            lease,
        };
        let finished = TransactionalStore::<H::Tx>::finish(&*self.store, open, record).await;
        Rule::Recorded.answer(finished)
    }

    async fn commits(&self, open: Transaction<H>, lease: Option<&Lease>) {
        let finished = self.commit(open, lease).await;
        let why = format!("nothing speaks against it, but {finished:?}");
        self.scene.holds(finished == Finished::Committed, &why);
    }

    async fn is_recorded(&self, lease: Option<&Lease>) -> bool {
        let found = RecordedByStore::<H::Tx>::is_recorded(&*self.store, &self.entity, lease).await;
        Rule::Recorded.answer(found)
    }

    /// Checks that nothing was committed.
    async fn left_nothing(&self, effect: &str, why: &str) {
        self.scene.holds(!self.is_recorded(None).await, why);
        self.scene.has_effects(effect, 0, why).await;
    }
}

/// The row and the writes commit together.
pub async fn an_entity_that_was_committed_is_recorded<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    let open = row.handled(&effect).await;
    row.left_nothing(&effect, "nothing is committed yet").await;
    row.commits(open, None).await;
    let found = row.is_recorded(None).await;
    row.scene.holds(found, "it was committed");
    row.scene.has_effects(&effect, 1, "it was committed").await;
}

/// What was rolled back is not there, and may be written anew.
pub async fn an_entity_that_was_rolled_back_is_not_recorded<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    let open = row.handled(&effect).await;
    roll_back::<H>(&row.store, open).await;
    row.left_nothing(&effect, "it was rolled back").await;
    let open = row.handled(&effect).await;
    row.commits(open, None).await;
    row.scene.has_effects(&effect, 1, "the second counts").await;
}

/// A copy's insert fails, and the store knows this error from others.
pub async fn a_copy_violates_the_constraint_and_nothing_else_does<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    let open = row.handled(&effect).await;
    row.commits(open, None).await;
    let mut copy = row.open().await;
    let Err(error) = H::insert_entity(H::Store::lend(&mut copy), row.name()).await else {
        panic!("{}\n  here: the entity is there", Rule::Recorded);
    };
    let violates = |error: &(dyn std::error::Error + 'static), entity: &RecordedRow| {
        RecordedByStore::<H::Tx>::violates(&*row.store, error, entity)
    };
    let scene = &row.scene;
    scene.holds(
        violates(&*error, &row.entity),
        "this very constraint is violated",
    );
    let other = RecordedRow::new("another_constraint", row.entity.parts.clone());
    scene.holds(
        !violates(&*error, &other),
        "another constraint is not violated",
    );
    scene.holds(
        !violates(&Another, &row.entity),
        "another error is no violation",
    );
    roll_back::<H>(&row.store, copy).await;
}

/// A handler that puts up with the row of another has not handled the message.
pub async fn a_row_that_was_there_before_is_a_violation<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    let open = row.handled(&effect).await;
    row.commits(open, None).await;
    let (mut copy, further) = (row.open().await, unique());
    H::write_effect(H::Store::lend(&mut copy), &further).await;
    let finished = row.commit(copy, None).await;
    let violated = matches!(finished, Finished::Violated { .. });
    row.scene
        .holds(violated, &format!("it is another's, but {finished:?}"));
    row.scene
        .has_effects(&further, 0, "it was rolled back")
        .await;
}

/// Nothing would keep a copy from running.
pub async fn a_handler_that_leaves_no_entity_is_refused<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    let mut open = row.open().await;
    H::write_effect(H::Store::lend(&mut open), &effect).await;
    let finished = row.commit(open, None).await;
    let refused = matches!(finished, Finished::Refused { .. });
    row.scene
        .holds(refused, &format!("there is no entity, but {finished:?}"));
    row.left_nothing(&effect, "it was refused").await;
}

/// A handler that rolls back by itself has not handled the message.
pub async fn a_transaction_that_the_handler_ended_records_nothing<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    let mut open = row.handled(&effect).await;
    H::roll_back_early(H::Store::lend(&mut open)).await;
    let finished = row.commit(open, None).await;
    let refused = matches!(finished, Finished::Refused { .. });
    row.scene
        .holds(refused, &format!("the handler ended it, but {finished:?}"));
    row.left_nothing(&effect, "the handler rolled back").await;
}

/// The constraint remembers, so the record of an earlier failure goes with the commit.
pub async fn a_commit_removes_the_record_of_its_attempt<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    row.scene.acquired().await.fails().await;
    let holder = row.scene.acquired().await;
    let open = row.handled(&effect).await;
    row.commits(open, Some(&holder.lease)).await;
    let found = row.is_recorded(None).await;
    row.scene.holds(found, "it was committed");
    let next = row.scene.acquired().await;
    next.is_attempt(1, false, "no record was left");
}

/// A worker slept beyond its lease, and another took over.
pub async fn an_attempt_that_was_taken_over_records_nothing<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Fencing), unique());
    let zombie = row.scene.acquired().await;
    row.scene.advance(LEASE).await;
    let successor = row.scene.acquired().await;
    let open = row.handled(&effect).await;
    let finished = row.commit(open, Some(&zombie.lease)).await;
    let fenced = finished == Finished::Fenced;
    row.scene
        .holds(fenced, &format!("another has taken over, but {finished:?}"));
    row.left_nothing(&effect, "it was fenced").await;
    successor
        .extend(LEASE)
        .await
        .is_applied("the successor works");
}

/// Whoever looks before it works, and finds the work done, needs its record no more.
pub async fn an_attempt_at_what_is_recorded_ends<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    let open = row.handled(&effect).await;
    row.commits(open, None).await;
    row.scene.acquired().await.fails().await;
    let holder = row.scene.acquired().await;
    let found = row.is_recorded(Some(&holder.lease)).await;
    row.scene.holds(found, "it was committed before");
    let next = row.scene.acquired().await;
    next.is_attempt(1, false, "no record was left");
}

/// Looking is no end of an attempt whose work is not done, nor of one that is another's.
pub async fn an_attempt_at_what_is_not_recorded_goes_on<H: EntityHarness>(harness: &H) {
    let (row, effect) = (Row::new(harness, Rule::Recorded), unique());
    let zombie = row.scene.acquired().await;
    row.scene.advance(LEASE).await;
    let holder = row.scene.acquired().await;
    let found = row.is_recorded(Some(&holder.lease)).await;
    row.scene.holds(!found, "nobody has committed it");
    let other = row.scene.claimant().claim().await;
    other.is_held("its attempt goes on");
    let open = row.handled(&effect).await;
    row.commits(open, None).await;
    let found = row.is_recorded(Some(&zombie.lease)).await;
    row.scene.holds(found, "it was committed");
    let other = row.scene.claimant().claim().await;
    other.is_held("the record is the successor's");
}

/// A constraint that is not there, or of other columns, cannot record anything.
pub async fn a_constraint_is_looked_at_first<H: EntityHarness>(harness: &H) {
    let row = Row::new(harness, Rule::Recorded);
    let check = async |constraint: &'static str, columns: usize| {
        RecordedByStore::<H::Tx>::check(&*row.store, constraint, columns).await
    };
    let fit = check(H::CONSTRAINT, 1).await;
    row.scene
        .holds(fit.is_ok(), &format!("it is there, but {fit:?}"));
    for (constraint, columns) in [(H::CONSTRAINT, 2), ("another_constraint", 1)] {
        let unfit = check(constraint, columns).await;
        let told = matches!(unfit, Err(RecordedByError::Unfit { .. }));
        let why = format!("`{constraint}` of {columns} columns is not there, but {unfit:?}");
        row.scene.holds(told, &why);
    }
}
