//! What handlers publish: committed with their writes, told of to one at a time until it is gone.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use idem_core::{
    handler::{IntoOutgoing, Outbox, OutboxError, Outgoing, OutgoingContent, OutgoingId},
    message::Key,
    store::{
        Finished, Release, TransactionalStore,
        outbox::{
            OutboxChange, OutboxCounts, OutboxEntry, OutboxListing, OutboxState, SharedOutbox,
            TAKEN_BYTES, Taken, Unpublished,
        },
    },
};
use tokio::task::JoinSet;

use super::{
    LEASE, Rule, Scene, TransactionalHarness,
    open::Open,
    scene::{key, unique},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// A message, as a door would make it.
#[derive(Clone)]
pub(super) struct Event(pub(super) Vec<u8>);

impl IntoOutgoing for Event {
    fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError> {
        let head = self.0.iter().rev().copied().collect();
        Ok(OutgoingContent {
            message_id: id,
            target: "shipping".into(),
            head,
            body: self.0,
        })
    }
}

/// A store with an outbox that nobody else uses.
struct Office<'a, H: TransactionalHarness> {
    scene: Scene<'a, H>,
    outbox: SharedOutbox,
}

impl<'a, H: TransactionalHarness> Office<'a, H> {
    fn open(harness: &'a H) -> Self {
        let scene = Scene::new(harness, Rule::Outbox);
        let outbox = outbox_of(&scene);
        Self { scene, outbox }
    }

    /// The same table, seen by another process.
    fn other(&self) -> SharedOutbox {
        outbox_of(&self.scene)
    }

    /// Handles a message whose handler publishes so, and says how that ended.
    async fn handle(&self, key: Key, publish: impl Fn(&Outbox)) -> (Finished, Vec<Outgoing>) {
        let outbox = Outbox::for_key(&key);
        publish(&outbox);
        let outgoing = outbox.messages();
        let open = Open::<H>::of(&self.scene.claimant_of(key)).await;
        (open.commit_publishing(&outgoing).await, outgoing)
    }

    /// The same for a new key, which must be committed.
    async fn publish(&self, publish: impl Fn(&Outbox)) -> Vec<Outgoing> {
        let (finished, outgoing) = self.handle(key(&unique()), publish).await;
        let why = format!("nothing speaks against it, but {finished:?}");
        self.scene.holds(finished == Finished::Committed, &why);
        outgoing
    }

    async fn take(&self, most: usize) -> Vec<Taken> {
        Rule::Outbox.answer(self.outbox.take(most, LEASE).await)
    }

    /// Takes all, which must be these, in any order.
    async fn takes(&self, expected: &[&Outgoing], why: &str) -> Vec<Taken> {
        let taken = self.take(1000).await;
        let ids: BTreeSet<_> = taken.iter().map(|it| it.id).collect();
        let told: Vec<_> = taken.iter().map(|it| &it.content.message_id).collect();
        let is_so = ids.len() == taken.len() && ids == expected.iter().map(|it| it.id).collect();
        self.scene
            .holds(is_so, &format!("{why}: it told of {told:?}"));
        taken
    }

    async fn list(&self, listing: OutboxListing) -> Vec<OutboxEntry> {
        Rule::Outbox.answer(
            self.outbox
                .list(&OutboxListing {
                    limit: 100,
                    ..listing
                })
                .await,
        )
    }

    async fn states(&self) -> Vec<OutboxState> {
        let entries = self.list(OutboxListing::default()).await;
        entries.into_iter().map(|entry| entry.state).collect()
    }

    async fn change(&self, change: OutboxChange) -> u64 {
        Rule::Outbox.answer(self.outbox.change(&change).await)
    }

    async fn remove(&self, ids: &[OutgoingId]) {
        Rule::Outbox.answer(self.outbox.remove(ids).await);
    }
}

fn outbox_of<H: TransactionalHarness>(scene: &Scene<'_, H>) -> SharedOutbox {
    let store = scene.store();
    let outbox = TransactionalStore::<H::Tx>::outbox(&*store);
    outbox.expect("the list asks for a store that has one")
}

/// What a key of one part is made of.
fn part_of(key: &Key) -> &str {
    let text = key.as_str();
    text.split_once(':').map_or(text, |(_, part)| part)
}

/// Published when it can be taken by whoever is first.
fn free(outbox: &Outbox) -> Outbox {
    outbox.after(Duration::ZERO)
}

fn event(text: &str) -> Event {
    Event(text.into())
}

fn put(outbox: &Outbox, text: &str) {
    outbox.publish(event(text)).expect("it is short");
}

/// With the writes, and not without them.
pub async fn what_is_published_is_committed_with_the_completion<H: TransactionalHarness>(
    harness: &H,
) {
    let office = Office::open(harness);
    let sent = office.publish(|outbox| put(&free(outbox), "charged")).await;
    office.takes(&[&sent[0]], "it was committed").await;
    let open = Open::<H>::of(&office.scene.claimant()).await;
    open.rolls_back(&Release::Abandoned).await;
    office.scene.advance(2 * LEASE).await;
    office.takes(&[&sent[0]], "the other was rolled back").await;
}

/// One who has lost its lease publishes nothing.
pub async fn a_completion_that_is_fenced_publishes_nothing<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let open = Open::<H>::of(&office.scene.claimant()).await;
    office.scene.advance(LEASE).await;
    let successor = office.scene.claimant().claim().await;
    successor.is_acquired("the lease has run out");
    let outbox = Outbox::for_key(office.scene.key());
    put(&free(&outbox), "charged");
    let finished = open.commit_publishing(&outbox.messages()).await;
    let why = format!("another has taken over, but {finished:?}");
    office.scene.holds(finished == Finished::Fenced, &why);
    office.takes(&[], "it was not committed").await;
}

/// Until its lease has run out, one has it.
pub async fn what_was_taken_is_told_again_when_its_lease_has_run_out<H: TransactionalHarness>(
    harness: &H,
) {
    let office = Office::open(harness);
    let sent = office.publish(|outbox| put(&free(outbox), "charged")).await;
    let taken = office.takes(&[&sent[0]], "it is due").await;
    office
        .scene
        .holds(taken[0].attempts == 1, "it was taken once");
    office.takes(&[], "somebody has it").await;
    office.scene.advance_nearly(LEASE).await;
    office.takes(&[], "somebody still has it").await;
    office.scene.advance(LEASE).await;
    let taken = office.takes(&[&sent[0]], "the lease has run out").await;
    office
        .scene
        .holds(taken[0].attempts == 2, "it was taken twice");
}

/// It has it in its hands.
pub async fn what_is_published_at_once_is_left_to_who_commits_it<H: TransactionalHarness>(
    harness: &H,
) {
    let office = Office::open(harness);
    let sent = office.publish(|outbox| put(outbox, "charged")).await;
    office.takes(&[], "who has committed it publishes it").await;
    office.scene.advance(Outgoing::LEASE).await;
    office
        .takes(&[&sent[0]], "who has committed it has gone")
        .await;
}

/// Its content comes back as it was, whatever it is.
pub async fn content_is_bytes_and_ids_are_texts<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let all: Vec<u8> = (0..=255).collect();
    let odd = key(&format!("'); {{body}} \\ \"é\u{1F980} {}", unique()));
    let (finished, sent) = office
        .handle(odd, |outbox| {
            let lane = free(outbox).ordered_by("c'\\\"{}é,NULL");
            lane.publish(Event(all.clone())).expect("it is short");
            free(outbox)
                .publish(Event(Vec::new()))
                .expect("it is short");
        })
        .await;
    office
        .scene
        .holds(finished == Finished::Committed, &format!("{finished:?}"));
    let taken = office.takes(&[&sent[0], &sent[1]], "both are due").await;
    for it in &taken {
        let of = sent
            .iter()
            .find(|sent| sent.id == it.id)
            .expect("it is one of them");
        let content = OutgoingContent {
            message_id: of.message_id.clone(),
            target: of.target.clone(),
            head: of.head.clone(),
            body: of.body.clone(),
        };
        office
            .scene
            .holds(it.content == content, &format!("{:?}", it.content));
        let shown = Rule::Outbox.answer(office.outbox.show(it.id).await);
        let (entry, shown) = shown.expect("it is there");
        office.scene.holds(shown == content, &format!("{shown:?}"));
        office
            .scene
            .holds(entry.lane == of.lane, &format!("{entry:?}"));
        office
            .scene
            .holds(entry.bytes == of.body.len() as u64, &format!("{entry:?}"));
    }
}

/// Not before, and nobody waits for who has written it.
pub async fn what_is_to_leave_later_is_due_then<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let sent = office
        .publish(|outbox| {
            put(&outbox.after(10 * MINUTE), "remind");
            put(&outbox.at(SystemTime::UNIX_EPOCH), "long ago");
            put(
                &outbox.at(SystemTime::now() + Duration::from_hours(48)),
                "the day after",
            );
        })
        .await;
    office.takes(&[&sent[1]], "its time is over").await;
    let states = office.states().await;
    office.scene.holds(
        states == [OutboxState::Later, OutboxState::Waiting, OutboxState::Later],
        &format!("{states:?}"),
    );
    office.scene.advance_nearly(10 * MINUTE).await;
    let early = office.take(10).await;
    let is_early = early.iter().all(|it| it.id == sent[1].id);
    office.scene.holds(is_early, "ten minutes are not over");
    office.scene.advance(MINUTE).await;
    office.remove(&[sent[1].id]).await;
    office.takes(&[&sent[0]], "ten minutes are over").await;
    office.scene.advance(Duration::from_hours(72)).await;
    office
        .takes(&[&sent[0], &sent[2]], "two days are over")
        .await;
}

/// And removing it again does no harm.
pub async fn what_was_removed_is_not_told_again<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let sent = office
        .publish(|outbox| {
            put(&free(outbox), "one");
            put(&free(outbox), "two");
        })
        .await;
    let ids = [sent[0].id];
    office.remove(&ids).await;
    office.remove(&ids).await;
    office.takes(&[&sent[1]], "one of them was removed").await;
    office.scene.advance(2 * LEASE).await;
    office.takes(&[&sent[1]], "one of them was removed").await;
}

/// When it is due again, and with its error.
pub async fn what_could_not_be_published_is_due_again<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let sent = office.publish(|outbox| put(&free(outbox), "charged")).await;
    office.takes(&[&sent[0]], "it is due").await;
    let again = Unpublished::again(sent[0].id, 1, "no\0broker", 5 * MINUTE);
    Rule::Outbox.answer(office.outbox.note(&[again]).await);
    office.takes(&[], "it is not due again").await;
    let entries = office.list(OutboxListing::default()).await;
    let error = entries[0].error.as_deref().unwrap_or_default();
    office
        .scene
        .holds(error.starts_with("no") && error.ends_with("broker"), error);
    office.scene.advance(5 * MINUTE).await;
    office.takes(&[&sent[0]], "it is due again").await;
    let own = office.publish(|outbox| put(outbox, "charged")).await;
    let again = Unpublished::again(own[0].id, 0, "no broker", Duration::ZERO);
    Rule::Outbox.answer(office.outbox.note(&[again]).await);
    let why = "who has committed it has put it back";
    let taken = office.takes(&[&own[0]], why).await;
    office
        .scene
        .holds(taken[0].attempts == 2, "it was tried once");
}

/// Who was told of it first has lost it, though it hears only later that it could not be published.
pub async fn what_somebody_else_has_taken_is_not_put_back<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let sent = office.publish(|outbox| put(&free(outbox), "charged")).await;
    office.takes(&[&sent[0]], "it is due").await;
    office.scene.advance(LEASE).await;
    office.takes(&[&sent[0]], "the lease has run out").await;
    let again = Unpublished::again(sent[0].id, 1, "no broker", Duration::ZERO);
    let dead = Unpublished::give_up(sent[0].id, 1, "no such queue");
    for late in [again, dead] {
        Rule::Outbox.answer(office.outbox.note(&[late]).await);
        office.takes(&[], "somebody else has it").await;
    }
    let is_waiting = office.states().await == [OutboxState::Waiting];
    office.scene.holds(is_waiting, "somebody else has it");
    let own = Unpublished::again(sent[0].id, 2, "no broker", Duration::ZERO);
    Rule::Outbox.answer(office.outbox.note(&[own]).await);
    office.takes(&[&sent[0]], "it was put back").await;
}

/// A broker that is away says nothing of it.
pub async fn what_was_not_tried_is_no_attempt<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let sent = office.publish(|outbox| put(&free(outbox), "charged")).await;
    for _ in 0..3 {
        let taken = office.takes(&[&sent[0]], "it is due").await;
        let why = "the broker was away each time";
        office.scene.holds(taken[0].attempts == 1, why);
        let untried = Unpublished::untried(sent[0].id, 1, "no broker", Duration::ZERO);
        Rule::Outbox.answer(office.outbox.note(&[untried]).await);
    }
    let taken = office.takes(&[&sent[0]], "it is due").await;
    let again = Unpublished::again(sent[0].id, taken[0].attempts, "full", Duration::ZERO);
    Rule::Outbox.answer(office.outbox.note(&[again]).await);
    let taken = office.takes(&[&sent[0]], "it is due again").await;
    let why = "it was tried once before";
    office.scene.holds(taken[0].attempts == 2, why);
}

/// Until somebody tries it again.
pub async fn what_was_given_up_waits_for_somebody<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let sent = office
        .publish(|outbox| {
            put(&free(outbox), "one");
            put(&free(outbox), "two");
            put(&free(outbox), "three");
        })
        .await;
    office.take(10).await;
    let dead = sent
        .iter()
        .map(|it| Unpublished::give_up(it.id, 1, "no such queue"));
    let dead: Vec<_> = dead.collect();
    Rule::Outbox.answer(office.outbox.note(&dead).await);
    office.scene.advance(Duration::from_hours(48)).await;
    office.takes(&[], "all were given up").await;
    let counts = Rule::Outbox.answer(office.outbox.counts().await);
    office.scene.holds(
        counts.dead == 3 && counts.waiting == 0,
        &format!("{counts:?}"),
    );

    let changed = office.change(OutboxChange::Retry(Some(sent[0].id))).await;
    office.scene.holds(changed == 1, "one is tried again");
    office.takes(&[&sent[0]], "it is tried again").await;
    let changed = office.change(OutboxChange::Redirect {
        id: sent[1].id,
        target: "elsewhere".into(),
        head: b"new".to_vec(),
    });
    office.scene.holds(changed.await == 1, "one goes elsewhere");
    let taken = office.takes(&[&sent[1]], "it goes elsewhere").await;
    let content = &taken[0].content;
    office.scene.holds(
        (&*content.target, &*content.head) == ("elsewhere", b"new"),
        &format!("{content:?}"),
    );
    let changed = office.change(OutboxChange::Retry(None)).await;
    office
        .scene
        .holds(changed == 1, "one is left that was given up");
    office.takes(&[&sent[2]], "all are tried again").await;
    let changed = office.change(OutboxChange::Discard(sent[2].id)).await;
    office.scene.holds(changed == 1, "one is discarded");
    let changed = office.change(OutboxChange::Discard(sent[2].id)).await;
    office.scene.holds(changed == 0, "it is not there any more");
}

/// In the order of the commits, the next one when the first is gone.
pub async fn of_a_lane_only_the_first_is_told<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let lane = unique();
    let mut sent = Vec::new();
    for text in ["one", "two"] {
        let two = office
            .publish(|outbox| {
                put(&outbox.ordered_by(&lane), text);
                put(&outbox.ordered_by(&lane), "and");
            })
            .await;
        sent.extend(two);
    }
    let other = office
        .publish(|outbox| put(&outbox.ordered_by(unique()), "other"))
        .await;
    office
        .takes(&[&sent[0], &other[0]], "they are the first of their lanes")
        .await;
    for next in &sent[1..] {
        office.takes(&[], "the first is not gone").await;
        let before = sent
            .iter()
            .position(|it| it.id == next.id)
            .expect("it is one")
            - 1;
        office.remove(&[sent[before].id]).await;
        office.takes(&[next], "the one before it is gone").await;
    }
}

/// However many lanes there are, and whichever of them has waited for longest.
pub async fn the_first_of_each_lane_is_found<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let names = unique();
    let lane = |name: &str| format!("{names}-{name}");
    let shows = async |minutes: u64, why: &str| {
        let glance = Rule::Outbox.answer(office.outbox.glance().await);
        let times = [glance.counts.oldest, glance.untaken].map(|time| time.as_secs() / 60);
        let why = format!("{why}: {glance:?}");
        office.scene.holds(times == [minutes; 2], &why);
    };
    let between = office
        .publish(|outbox| {
            put(&outbox.ordered_by(lane("b")), "one");
            put(&outbox.ordered_by(lane("b")), "two");
        })
        .await;
    office.scene.advance(5 * MINUTE).await;
    shows(5, "the only lane has waited for five minutes").await;
    let others = office
        .publish(|outbox| {
            for name in ["a", "c"] {
                put(&outbox.ordered_by(lane(name)), "one");
            }
            put(&free(outbox), "single");
        })
        .await;
    shows(5, "the oldest is neither in the first lane nor in the last").await;
    let expected = [&between[0], &others[0], &others[1], &others[2]];
    let taken = office.takes(&expected, "they are free").await;
    for it in taken {
        let is_in_lane = it.id != others[2].id;
        let why = format!("{}: {}", it.content.message_id, it.in_lane);
        office.scene.holds(it.in_lane == is_in_lane, &why);
    }
}

/// And no others.
pub async fn one_that_was_given_up_stops_its_lane<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let lane = unique();
    let sent = office
        .publish(|outbox| {
            put(&outbox.ordered_by(&lane), "one");
            put(&outbox.ordered_by(&lane), "two");
        })
        .await;
    office.take(10).await;
    let dead = Unpublished::give_up(sent[0].id, 1, "no such queue");
    Rule::Outbox.answer(office.outbox.note(&[dead]).await);
    office.scene.advance(Duration::from_hours(1)).await;
    let other = office
        .publish(|outbox| put(&outbox.ordered_by(unique()), "other"))
        .await;
    office
        .takes(&[&other[0]], "the first of the lane was given up")
        .await;
    office.change(OutboxChange::Discard(sent[0].id)).await;
    office
        .takes(&[&sent[1]], "the first of the lane is gone")
        .await;
}

/// However many take at once.
pub async fn each_is_told_to_one<H: TransactionalHarness>(harness: &H) {
    const MESSAGES: usize = 40;
    let office = Office::open(harness);
    let sent = office
        .publish(|outbox| {
            for _ in 0..MESSAGES {
                put(&free(outbox), "charged");
            }
        })
        .await;
    let mut taking = JoinSet::new();
    for _ in 0..8 {
        let outbox = office.other();
        taking.spawn(async move { outbox.take(MESSAGES / 4, LEASE).await });
    }
    let mut taken = Vec::new();
    while let Some(some) = taking.join_next().await {
        taken.extend(Rule::Outbox.answer(some.expect("it does not panic")));
    }
    // Who finds a message locked passes it over.
    taken.extend(office.take(MESSAGES).await);
    let ids: BTreeSet<_> = taken.iter().map(|it| it.id).collect();
    let further = office
        .publish(|outbox| (0..3).for_each(|_| put(&free(outbox), "charged")))
        .await;
    for count in [2, 1] {
        let some = office.take(2).await.len();
        let why = format!("of {} two at a time, but it told of {some}", further.len());
        office.scene.holds(some == count, &why);
    }
    office
        .scene
        .holds(taken.len() == ids.len(), "one was told to two");
    office.scene.holds(
        ids.len() == sent.len(),
        &format!("of {MESSAGES} it told of {}", ids.len()),
    );
}

/// By its id, or with all of its key; not when it is due.
pub async fn what_is_to_leave_later_can_be_cancelled<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let (one, other) = (key(&unique()), key(&unique()));
    let remind = |outbox: &Outbox| {
        put(&outbox.after(10 * MINUTE), "remind");
        put(&free(outbox), "charged");
        put(&outbox.after(20 * MINUTE), "remind again");
    };
    let (_, of_one) = office.handle(one.clone(), remind).await;
    let (_, of_other) = office.handle(other, remind).await;
    let cancelled = office.change(OutboxChange::Cancel(one.to_string())).await;
    office.scene.holds(
        cancelled == 2,
        &format!("the key had two, {cancelled} were cancelled"),
    );
    let second = of_other[2].message_id.clone();
    let cancelled = office.change(OutboxChange::Cancel(second.clone())).await;
    office.scene.holds(
        cancelled == 1,
        &format!("`{second}` is one, {cancelled} were cancelled"),
    );
    office.scene.advance(15 * MINUTE).await;
    let first = of_other[0].message_id.clone();
    let cancelled = office.change(OutboxChange::Cancel(first)).await;
    office.scene.holds(cancelled == 0, "it is due");
    // Its text begins like an id of the first key, and it is another key.
    let odd = Key::new("conformance", format!("{}#2", part_of(&one))).expect("it is no empty part");
    let (_, of_odd) = office
        .handle(odd, |outbox| put(&outbox.after(10 * MINUTE), "remind"))
        .await;
    let cancelled = office.change(OutboxChange::Cancel(one.to_string())).await;
    office
        .scene
        .holds(cancelled == 0, "what is left is another key's");
    office.scene.advance(10 * MINUTE).await;
    let expected = [&of_one[1], &of_other[0], &of_other[1], &of_odd[0]];
    office.takes(&expected, "these were not cancelled").await;
}

/// So that nobody has to keep all of a backlog in memory.
pub async fn what_is_long_is_taken_little_by_little<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let long = Event(vec![7; TAKEN_BYTES / 3]);
    let sent = office
        .publish(|outbox| {
            free(outbox)
                .publish(long.clone())
                .expect("it is no longer than that");
        })
        .await;
    let further = office
        .publish(|outbox| {
            free(outbox)
                .publish(long.clone())
                .expect("it is no longer than that");
        })
        .await;
    // With its head, one alone has two thirds of it.
    let first = office
        .takes(&[&sent[0]], "one is as much as is taken at once")
        .await;
    office
        .scene
        .holds(first[0].content.body == long.0, "it is as it was");
    office.takes(&[&further[0]], "the other is left").await;
    let mut in_lanes = Vec::new();
    for _ in 0..2 {
        let publish = |outbox: &Outbox| {
            let in_lane = outbox.ordered_by(unique()).publish(long.clone());
            in_lane.expect("it is no longer than that");
        };
        in_lanes.extend(office.publish(publish).await);
    }
    for it in &in_lanes {
        office.takes(&[it], "so it is with lanes").await;
    }
}

/// How many of which kind, for how long the oldest has waited, and whether anybody takes what is free.
pub async fn a_glance_shows_how_many_wait_and_for_how_long<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let of = async || {
        let glance = Rule::Outbox.answer(office.outbox.glance().await);
        let counts = glance.counts;
        let counted = Rule::Outbox.answer(office.outbox.counts().await);
        let in_minutes = |counts: OutboxCounts| {
            let minutes = counts.oldest.as_secs() / 60;
            (counts.waiting, counts.later, counts.dead, minutes)
        };
        office.scene.holds(
            in_minutes(counted) == in_minutes(counts),
            &format!("{counted:?} were counted"),
        );
        let minutes = |time: Duration| time.as_secs() / 60;
        (
            [counts.waiting, counts.later, counts.dead],
            [minutes(counts.oldest), minutes(glance.untaken)],
        )
    };
    let shows = async |counts, minutes, why: &str| {
        let shown = of().await;
        office
            .scene
            .holds(shown == (counts, minutes), &format!("{why}: {shown:?}"));
    };
    shows([0, 0, 0], [0, 0], "nothing was published").await;
    let lane = unique();
    let sent = office
        .publish(|outbox| {
            put(outbox, "charged");
            put(&free(outbox), "shipped");
            put(&outbox.after(10 * MINUTE), "remind");
            put(&outbox.ordered_by(&lane), "moved");
            put(&outbox.ordered_by(&lane), "moved again");
            put(
                &outbox.ordered_by(unique()).after(10 * MINUTE),
                "move later",
            );
        })
        .await;
    shows([4, 2, 0], [0, 0], "all was published just now").await;
    office.scene.advance(5 * MINUTE).await;
    shows([4, 2, 0], [5, 5], "nobody has taken anything").await;
    office
        .takes(&[&sent[0], &sent[1], &sent[3]], "they are free")
        .await;
    shows([4, 2, 0], [5, 0], "all that is free was taken").await;
    let again = Unpublished::again(sent[0].id, 1, "full", MINUTE);
    let dead = Unpublished::give_up(sent[3].id, 1, "no such queue");
    Rule::Outbox.answer(office.outbox.note(&[again, dead]).await);
    shows([3, 2, 1], [5, 0], "one was given up").await;
    office.remove(&[sent[0].id, sent[1].id]).await;
    office.scene.advance(2 * MINUTE).await;
    shows(
        [1, 2, 1],
        [7, 0],
        "one waits behind one that was given up, and is not free",
    )
    .await;
    office.change(OutboxChange::Discard(sent[4].id)).await;
    office.scene.advance(5 * MINUTE).await;
    office
        .takes(&[&sent[2], &sent[5]], "ten minutes are over")
        .await;
    shows([2, 0, 1], [2, 0], "a worker has them").await;
    office.scene.advance(3 * MINUTE).await;
    shows([2, 0, 1], [5, 2], "they were to leave after ten minutes").await;
}

/// What was given up, the first of a lane that was tried in vain, and what is due first.
pub async fn what_may_need_somebody_is_told<H: TransactionalHarness>(harness: &H) {
    use OutboxState::{Dead, Later, Waiting};
    let office = Office::open(harness);
    let names = unique();
    let lane = |name: &str| format!("{names}-{name}");
    let sent = office
        .publish(|outbox| {
            for minute in 2..=4 {
                put(&outbox.after(minute * MINUTE), "remind");
            }
            // The one that is tried in vain is in the lane between.
            for name in ["a", "c", "b", "b"] {
                put(&outbox.ordered_by(lane(name)), "moved");
            }
            put(&free(outbox), "charged");
        })
        .await;
    let due = [&sent[3], &sent[4], &sent[5], &sent[7]];
    office.takes(&due, "they are due").await;
    let again = Unpublished::again(sent[5].id, 1, "full", MINUTE);
    let dead = Unpublished::give_up(sent[7].id, 1, "no such queue");
    Rule::Outbox.answer(office.outbox.note(&[again, dead]).await);
    let told = async |most| {
        let entries = Rule::Outbox.answer(office.outbox.troubled(most).await);
        let told = entries.iter().map(|it| (it.id, it.state));
        told.collect::<Vec<_>>()
    };
    let is = |entries: &[(usize, OutboxState)]| {
        let expected = entries.iter().map(|(at, state)| (sent[*at].id, *state));
        expected.collect::<Vec<_>>()
    };
    let (two, all) = (told(2).await, told(100).await);
    office.scene.holds(
        two == is(&[(0, Later), (1, Later), (5, Waiting), (7, Dead)]),
        &format!("two of each kind, but it told of {two:?}"),
    );
    office.scene.holds(
        all == is(&[(0, Later), (1, Later), (2, Later), (5, Waiting), (7, Dead)]),
        &format!("all of each kind, but it told of {all:?}"),
    );
    office.scene.advance(150 * SECOND).await;
    let some = told(100).await;
    office.scene.holds(
        some[..2] == is(&[(0, Waiting), (1, Later)]),
        &format!("the first one is due, but it told of {some:?}"),
    );
    let ids: Vec<_> = sent.iter().map(|it| it.id).collect();
    office.remove(&ids).await;
    let none = told(100).await;
    office.scene.holds(none.is_empty(), "nothing is left");
}

/// From page to page, and by what they are chosen.
pub async fn messages_are_listed_in_pages<H: TransactionalHarness>(harness: &H) {
    let office = Office::open(harness);
    let named = key(&unique());
    let (_, sent) = office
        .handle(named.clone(), |outbox| {
            for _ in 0..5 {
                put(&outbox.after(MINUTE), "remind");
            }
        })
        .await;
    office.publish(|outbox| put(outbox, "charged")).await;
    let mut listing = OutboxListing {
        prefix: named.to_string(),
        limit: 2,
        ..OutboxListing::default()
    };
    let mut found = Vec::new();
    loop {
        let page = Rule::Outbox.answer(office.outbox.list(&listing).await);
        let Some(last) = page.last() else { break };
        office.scene.holds(page.len() <= 2, "a page has two");
        listing.after = Some(last.id);
        found.extend(page.into_iter().map(|it| it.id));
    }
    let ids: Vec<_> = sent.iter().map(|it| it.id).collect();
    office
        .scene
        .holds(found == ids, "those of the key, in their order");
    let one = office.list(OutboxListing {
        prefix: sent[0].message_id.clone(),
        ..OutboxListing::default()
    });
    let one: Vec<_> = one.await.into_iter().map(|it| it.id).collect();
    office
        .scene
        .holds(one == ids[..1], "of one id there is one message");
    let later = office.list(OutboxListing {
        state: Some(OutboxState::Later),
        ..OutboxListing::default()
    });
    office
        .scene
        .holds(later.await.len() == 5, "five are to leave later");
    let counts = Rule::Outbox.answer(office.outbox.counts().await);
    office.scene.holds(
        (counts.waiting, counts.later, counts.dead) == (1, 5, 0),
        &format!("{counts:?}"),
    );
}
