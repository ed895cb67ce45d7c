//! Sequences of the plain store.

use std::{collections::BTreeSet, time::Duration};

use idem_core::{
    Outcome, StoreError,
    handler::Refusal,
    message::SequencePlace,
    store::{Claim, ClaimRequest, OutOfPlace, Release, SequenceStore},
};

use crate::{
    flaw::Flaw,
    record::{Record, State},
    store::{PlainStore, Shared},
};

/// What is known of a sequence. Times count from the store's making.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    joined: u64,
    mark: u64,
    /// How many numbers from the mark on may have records.
    window: u32,
    /// Since when claims that skip have been ahead, and when the last of them was.
    ahead: Option<(Duration, Duration)>,
    moved_at: Duration,
    look_by: Duration,
    expires_at: Duration,
    exceptions: BTreeSet<u64>,
}

impl PlainStore {
    /// A claim of a numbered message.
    pub(crate) fn claim_numbered(
        &self,
        request: &ClaimRequest,
        place: &SequencePlace,
    ) -> Result<Claim, StoreError> {
        if place.key() != request.key && !self.has(Flaw::BelievesTheKey) {
            return Err(StoreError::Refused("another key".into()));
        }
        let place = &self.as_kept(place);
        if place.number > SequencePlace::MAX_NUMBER && !self.has(Flaw::HasNoGreatestNumber) {
            let known = self.shared();
            let known = known.sequences.get(&self.name_of(place));
            let mark = known.map_or(0, |known| known.mark);
            return Ok(ahead(mark, place));
        }
        let turn = self.turn.lock().expect("nothing panics under the lock");
        let in_two_steps = self.has(Flaw::SequencesInTwoSteps) || self.has(Flaw::ClaimsInTwoSteps);
        let _turn = (!in_two_steps).then_some(turn);
        let mut shared = self.shared();
        let name = self.name_of(place);
        let known = shared.sequences.get(&name).cloned();
        if self.has(Flaw::SequencesInTwoSteps) {
            drop(shared);
            std::thread::sleep(Duration::from_millis(1));
            shared = self.shared();
        }
        let living = known.filter(|known| self.now() < known.expires_at || self.never_expires());
        let is_known = living.is_some();
        let Some(mut sequence) = self.begun(living, request, place, &mut shared) else {
            drop(shared);
            return Ok(self.claim_key(request));
        };
        if is_known {
            sequence = self.look(sequence, request, place, &mut shared);
        }
        shared.sequences.insert(name, sequence.clone());
        drop(shared);
        let window = u64::from(place.window);
        let ordered = self.has(Flaw::OrdersMessages) && place.number != sequence.mark;
        Ok(match () {
            () if place.number < sequence.joined && self.has(Flaw::RefusesWhatCameBefore) => {
                self.claim_below(&sequence, request, place)
            }
            () if place.number < sequence.joined => self.claim_key(request),
            () if place.number < sequence.mark => self.claim_below(&sequence, request, place),
            () if self.has(Flaw::RunsAhead) => self.claim_key(request),
            () if place.number >= sequence.mark + window || ordered => ahead(sequence.mark, place),
            () => match self.claim_key(request) {
                Claim::Completed { .. } if self.has(Flaw::ForgetsOutcomesAtOnce) => done(&sequence),
                answer => answer,
            },
        })
    }

    /// The place as the store's columns hold it.
    fn as_kept(&self, place: &SequencePlace) -> SequencePlace {
        let mut place = place.clone();
        place.window = place.window.clamp(1, SequencePlace::MAX_WINDOW);
        if self.has(Flaw::CapsWindows) {
            place.window = place.window.min(1000);
        }
        if self.has(Flaw::CutsNumbers) {
            place.number &= u64::from(u32::MAX);
        }
        place
    }

    fn name_of(&self, place: &SequencePlace) -> String {
        if self.has(Flaw::OneSequenceForAll) {
            return String::new();
        }
        place.sequence.to_string()
    }

    fn known_for(&self, request: &ClaimRequest) -> Duration {
        match () {
            () if self.has(Flaw::ExpiresEarly) => request.retention * 3 / 4,
            () => request.retention,
        }
    }

    fn never_expires(&self) -> bool {
        self.has(Flaw::NeverExpiresSequences)
    }

    /// The sequence, begun now if it has to be; `None` if this is no message to begin one with.
    fn begun(
        &self,
        known: Option<Sequence>,
        request: &ClaimRequest,
        place: &SequencePlace,
        shared: &mut Shared,
    ) -> Option<Sequence> {
        if known.is_some() {
            return known;
        }
        let replayed = request.replay && !self.has(Flaw::ReplaysBegin);
        if replayed || !place.begins && !self.has(Flaw::BeginsWithAny) {
            return None;
        }
        let (joined, mark) = match place.number {
            _ if self.has(Flaw::BeginsAtZero) => (0, 0),
            number if self.has(Flaw::BelievesWhatCameBefore) => (0, number),
            number => (number, number),
        };
        let old = shared.sequences.get(&self.name_of(place));
        let kept = old.filter(|_| self.has(Flaw::KeepsOldExceptions));
        let exceptions = kept.map_or_else(BTreeSet::new, |old| old.exceptions.clone());
        if self.has(Flaw::BeginsWithoutRecords) {
            let records = format!("{}~", place.sequence);
            shared.records.retain(|name, _| !name.starts_with(&records));
        }
        Some(Sequence {
            joined,
            mark,
            ahead: None,
            window: place.window,
            moved_at: self.now(),
            look_by: self.now() + request.retention / 8,
            expires_at: self.now() + self.known_for(request),
            exceptions,
        })
    }

    fn look(
        &self,
        mut sequence: Sequence,
        request: &ClaimRequest,
        place: &SequencePlace,
        shared: &mut Shared,
    ) -> Sequence {
        let window = u64::from(place.window);
        let began_at = sequence.mark;
        let half = place.number >= sequence.mark + window / 2;
        let next = self.now() + request.retention / 8;
        let shorter = next < sequence.look_by && !self.has(Flaw::LooksTooLate);
        let due = self.now() >= sequence.look_by || shorter;
        let waits = self.has(Flaw::WaitsForHalfAWindow) && !half;
        let is_ahead = place.number >= sequence.mark + window;
        let goes_on = place.number >= sequence.mark;
        let is_no_sign = self.has(Flaw::AheadIsNoSign) && is_ahead
            || !goes_on && !self.has(Flaw::CopiesAreASign);
        if due && !is_no_sign && !self.has(Flaw::CountsFromTheBeginning) {
            sequence.look_by = next;
            sequence.expires_at = self.now() + self.known_for(request);
        }
        if goes_on && (half || due) && !waits && !self.has(Flaw::NeverMovesTheMark) {
            self.moves(&mut sequence, place, shared, is_ahead);
        }
        if goes_on {
            let ends = began_at + u64::from(sequence.window);
            let rest = u32::try_from(ends.saturating_sub(sequence.mark)).unwrap_or(0);
            sequence.window = match () {
                () if self.has(Flaw::KeepsTheNarrowWindow) => place.window,
                () => place.window.max(rest),
            };
        }
        if due && !is_no_sign && !self.has(Flaw::KeepsNoWindow) {
            let window = u64::from(sequence.window);
            for number in sequence.mark..sequence.mark + window {
                let name = self.name(&place.sequence.message(number));
                let record = shared.records.get_mut(&name);
                let known = |record: &&mut Record| {
                    let ended = match &record.state {
                        State::Completed(_) => true,
                        State::Released(reason) => {
                            matches!(reason, Release::GaveUp { .. } | Release::Quarantined)
                        }
                        State::InProgress { .. } => false,
                    };
                    !self.forgotten(record) && (ended || self.has(Flaw::KeepsWhatFailed))
                };
                if let Some(record) = record.filter(known) {
                    record.forget_at = record.forget_at.max(sequence.expires_at);
                }
            }
        }
        sequence
    }

    fn moves(
        &self,
        sequence: &mut Sequence,
        place: &SequencePlace,
        shared: &mut Shared,
        is_ahead: bool,
    ) {
        let began_at = sequence.mark;
        let one_more = u64::from(self.has(Flaw::PassesTheClaimed));
        let end = (began_at + u64::from(place.window).min(1024)).min(place.number + one_more);
        self.pass(sequence, place, shared, end);
        if sequence.mark > began_at {
            sequence.moved_at = self.now();
            if !self.has(Flaw::SkipsTheNextGapAtOnce) {
                sequence.ahead = None;
            }
            return;
        }
        if !self.skips(sequence, place, is_ahead) {
            return;
        }
        let came = |number: &u64| {
            let name = self.name(&place.sequence.message(*number));
            let record = shared.records.get(&name);
            record.is_some_and(|record| !self.forgotten(record))
        };
        let before = match (began_at..end).rev().find(came) {
            _ if self.has(Flaw::SkipsBeyondTheWindow) => place.number,
            _ if self.has(Flaw::SkipsWhatMayCome) => end,
            Some(last) => last,
            None if self.has(Flaw::SkipsNoWideGap) => began_at,
            None => end,
        };
        while sequence.mark < before && self.may_skip(sequence, place, shared) {
            sequence.exceptions.insert(sequence.mark);
            sequence.mark += 1;
            if !self.has(Flaw::SkipsOneGap) {
                self.pass(sequence, place, shared, end);
            }
        }
        self.pass(sequence, place, shared, end);
        if sequence.mark > began_at {
            sequence.moved_at = self.now();
            sequence.ahead = None;
        }
    }

    /// Passes what is done with.
    fn pass(&self, sequence: &mut Sequence, place: &SequencePlace, shared: &mut Shared, end: u64) {
        while sequence.mark < end {
            let number = sequence.mark;
            let name = self.name(&place.sequence.message(number));
            let record = shared.records.get(&name);
            let record = record.filter(|record| !self.forgotten(record)).cloned();
            let given_up = |reason: &Release| match reason {
                Release::GaveUp { .. } => !self.has(Flaw::StopsAtTheGivenUp),
                Release::Quarantined => !self.has(Flaw::StopsAtTheQuarantined),
                _ => false,
            };
            match record.map(|record| record.state) {
                None if self.has(Flaw::PassesGaps) => {}
                Some(State::Completed(outcome))
                    if outcome.as_bytes().starts_with(b"!")
                        && !self.has(Flaw::BelievesRefusals) =>
                {
                    sequence.exceptions.insert(number);
                }
                Some(State::Completed(_)) => {
                    if !self.has(Flaw::KeepsPassedRecords) {
                        shared.remove(&name);
                    }
                }
                Some(State::Released(reason)) if given_up(&reason) => {
                    if !self.has(Flaw::ForgetsExceptions) {
                        sequence.exceptions.insert(number);
                    }
                }
                Some(State::InProgress { .. }) if self.has(Flaw::PassesWhatIsInProgress) => {}
                Some(State::Released(_)) if self.has(Flaw::PassesWhatFailed) => {}
                Some(_) | None => return,
            }
            sequence.mark += 1;
        }
    }

    /// Whether what is missing has been waited for long enough.
    fn skips(&self, sequence: &mut Sequence, place: &SequencePlace, is_ahead: bool) -> bool {
        let keeps_waiting = is_ahead || self.has(Flaw::SkipsInsideTheWindow);
        let Some(patience) = place.skip_after.filter(|_| keeps_waiting) else {
            return false;
        };
        let now = self.now();
        let pause = (patience / 2).min(Duration::from_mins(2));
        let since = match sequence.ahead {
            Some((since, last)) if now < last + pause => since,
            _ => now,
        };
        sequence.ahead = Some((since, now));
        let waited = match () {
            () if self.has(Flaw::SkipsAfterAPause) => now.saturating_sub(sequence.moved_at),
            () => now.saturating_sub(since),
        };
        (patience <= waited || self.has(Flaw::SkipsAtOnce)) && !self.has(Flaw::NeverSkips)
    }

    /// Whether the number at the mark is missing.
    fn may_skip(&self, sequence: &Sequence, place: &SequencePlace, shared: &Shared) -> bool {
        let name = self.name(&place.sequence.message(sequence.mark));
        let record = shared.records.get(&name);
        match record.filter(|record| !self.forgotten(record)) {
            None => true,
            Some(record) => {
                self.has(Flaw::SkipsWhatFailed) && !matches!(record.state, State::Completed(_))
            }
        }
    }

    /// A claim of what is below the mark.
    fn claim_below(
        &self,
        sequence: &Sequence,
        request: &ClaimRequest,
        place: &SequencePlace,
    ) -> Claim {
        if self.has(Flaw::RunsWhatIsBelow) {
            return self.claim_key(request);
        }
        let record = {
            let shared = self.shared();
            let record = shared.records.get(&self.name(&request.key)).cloned();
            record.filter(|record| !self.forgotten(record))
        };
        let listed = sequence.exceptions.contains(&place.number);
        let dropped = record.is_none() && self.has(Flaw::ExceptionsFollowRecords);
        let is_done = place.number >= sequence.joined && (!listed || dropped);
        let replayed = request.replay && !self.has(Flaw::RefusesReplaysBelow);
        match (record.map(|record| record.state), is_done) {
            (None, true) if request.replay && self.has(Flaw::ReplaysWhatIsDone) => {
                self.claim_key(request)
            }
            (None, true) => self.done(sequence),
            (Some(State::Released(Release::GaveUp { .. })), _)
                if self.has(Flaw::RunsTheGivenUpBelow) =>
            {
                self.claim_key(request)
            }
            (None | Some(State::Released(Release::GaveUp { .. })), _) if !replayed => {
                Claim::OutOfPlace(OutOfPlace::Late)
            }
            (Some(State::Completed(_)), _) => self.claim_key(request),
            (Some(_), _) if self.has(Flaw::ExceptionsAreAlwaysLate) && !request.replay => {
                Claim::OutOfPlace(OutOfPlace::Late)
            }
            _ => self.claim_key(request),
        }
    }

    fn done(&self, sequence: &Sequence) -> Claim {
        let rest = sequence.expires_at.saturating_sub(self.now());
        match done(sequence) {
            Claim::Completed { outcome, .. } if !self.has(Flaw::TellsNoTime) => Claim::Completed {
                outcome,
                remaining: rest,
            },
            answer => answer,
        }
    }

    /// Removes at most so many sequences and exceptions that have expired.
    pub(crate) fn purge_sequences(&self, shared: &mut Shared, batch: usize) -> usize {
        let now = self.now();
        let mut removed = 0;
        while removed < batch && !self.has(Flaw::PurgesNoSequences) {
            let over = |sequence: &Sequence| {
                sequence.expires_at <= now || self.has(Flaw::PurgesKnownSequences)
            };
            let mut known = shared.sequences.iter_mut();
            let Some((name, expired)) = known.find(|(_, sequence)| over(sequence)) else {
                break;
            };
            removed += 1;
            if expired.exceptions.pop_first().is_none() {
                let name = name.clone();
                shared.sequences.remove(&name);
            }
        }
        removed
    }
}

impl SequenceStore for PlainStore {}

fn ahead(mark: u64, place: &SequencePlace) -> Claim {
    Claim::OutOfPlace(OutOfPlace::Ahead {
        mark,
        window: place.window,
    })
}

fn done(_: &Sequence) -> Claim {
    let refusal = Refusal::new(Refusal::STALE, "it is no longer kept").to_json();
    Claim::Completed {
        outcome: Outcome::new([b"?".as_slice(), &refusal].concat()),
        remaining: Duration::ZERO,
    }
}
