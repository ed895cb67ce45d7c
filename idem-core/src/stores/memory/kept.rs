//! All that a memory store keeps, behind its one lock.

use std::{collections::HashMap, ops::Range};

use super::{records::Records, sequences::Sequences, sessions::Sessions};
use crate::{
    message::{Key, SequencePlace, SessionKey, SessionPlace},
    store::{
        Claim, ClaimRequest, Owner, StoreError,
        operator::AuditEntry,
        rules::{
            record::{self, Record, State},
            sequence::{self, Below, Entered, Placed, Sequence, Standing},
            session::{self, Session},
            stream::Stream,
        },
    },
};

/// What operators did, by the key and in its order.
pub(super) type Audit = HashMap<Key, Vec<(Owner, AuditEntry)>>;

pub(super) struct Kept {
    pub(super) records: Records,
    /// Sessions do not count towards the capacity.
    pub(super) sessions: Sessions,
    /// Nor do sequences.
    pub(super) sequences: Sequences,
    /// Nor do the marks of streams.
    pub(super) streams: HashMap<Key, Stream>,
    pub(super) audit: Audit,
    capacity: usize,
}

impl Kept {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            records: Records::default(),
            sessions: Sessions::default(),
            sequences: Sequences::default(),
            streams: HashMap::new(),
            audit: Audit::default(),
            capacity,
        }
    }

    /// Decides about a key, whether there is a session or not.
    pub(super) fn claim(&mut self, request: &ClaimRequest, now: i64) -> Result<Claim, StoreError> {
        let known = self.records.get(&request.key);
        let is_new = known.is_none();
        let step = record::claim(known, request, now, self.records.floor());
        if is_new {
            self.records.make_room(self.capacity, now)?;
        }
        if let Some(record) = step.write {
            self.records.put(request.key.clone(), record);
        }
        Ok(step.answer)
    }

    /// Writes a session, and removes the answers that its mark has passed; `None` leaves it as it is.
    pub(super) fn put_session(&mut self, key: &SessionKey, written: Option<Session>, now: i64) {
        let Some(written) = written else { return };
        if let Some(known) = self.sessions.get(key) {
            let passed = known.passed_by(&written);
            let until = known.keeps_until(&written);
            self.remove_answers(key, passed);
            if let Some(until) = until {
                for number in written.answers() {
                    self.keep(&key.request(number), until, now);
                }
            }
        }
        self.sessions.put(key.clone(), written);
    }

    /// Keeps a record until then at least, if there is one.
    fn keep(&mut self, key: &Key, until: i64, now: i64) {
        let known = |record: &Record| !record.is_forgotten(now) && record.forget_at < until;
        if let Some(mut record) = self.records.get(key).filter(|it| known(it)).cloned() {
            record.forget_at = until;
            self.records.put(key.clone(), record);
        }
    }

    /// Removes the answers to these numbers; what is in progress is no answer.
    pub(super) fn remove_answers(&mut self, session: &SessionKey, numbers: Range<u64>) {
        for number in numbers {
            let key = session.request(number);
            let record = self.records.get(&key);
            if record.is_some_and(|record| !matches!(record.state, State::InProgress { .. })) {
                self.records.remove(&key);
            }
        }
    }

    /// A claim of a session's request.
    pub(super) fn claim_in_session(
        &mut self,
        request: &ClaimRequest,
        place: &SessionPlace,
        now: i64,
    ) -> Result<Claim, StoreError> {
        let session = &place.session;
        match session::place(self.sessions.get(session), place, now) {
            session::Placed::Outside(why, written) => {
                self.put_session(session, written, now);
                Ok(why.into())
            }
            session::Placed::Inside(written) => {
                self.put_session(session, Some(written), now);
                self.claim(request, now)
            }
        }
    }

    /// A claim of a numbered message.
    pub(super) fn claim_numbered(
        &mut self,
        request: &ClaimRequest,
        place: &SequencePlace,
        now: i64,
    ) -> Result<Claim, StoreError> {
        let key = &place.sequence;
        let sequence = match sequence::enter(self.sequences.get(key), request, place, now) {
            Entered::Ahead(why) => return Ok(why.into()),
            Entered::Unknown => return self.claim(request, now),
            Entered::Begun(sequence) => {
                self.sequences.begin(key, sequence);
                sequence
            }
            Entered::Known(sequence, None) => sequence,
            Entered::Known(sequence, Some(numbers)) => {
                self.look(&sequence, numbers, request, place, now)
            }
        };
        match sequence.place(place) {
            Placed::Ahead(why) => Ok(why.into()),
            Placed::Ordinary => self.claim(request, now),
            Placed::Below => self.claim_below(&sequence, request, place, now),
        }
    }

    /// Moves the mark as far as these numbers let it.
    fn look(
        &mut self,
        sequence: &Sequence,
        numbers: Range<u64>,
        request: &ClaimRequest,
        place: &SequencePlace,
        now: i64,
    ) -> Sequence {
        let key = &place.sequence;
        let standing = |number| Standing::of(self.records.get(&key.message(number)), now);
        let standings: Vec<_> = numbers.map(standing).collect();
        let looked = sequence::look(sequence, &standings, request, place, now);
        for number in looked.removed {
            self.records.remove(&key.message(number));
        }
        for number in looked.kept.into_iter().flatten() {
            let key = key.message(number);
            if Standing::of(self.records.get(&key), now) != Standing::Waiting {
                self.keep(&key, looked.sequence.expires_at, now);
            }
        }
        self.sequences.put(key, looked.sequence, &looked.exceptions);
        looked.sequence
    }

    fn claim_below(
        &mut self,
        sequence: &Sequence,
        request: &ClaimRequest,
        place: &SequencePlace,
        now: i64,
    ) -> Result<Claim, StoreError> {
        let is_exception = self.sequences.is_exception(&place.sequence, place.number);
        let record = self.records.get(&request.key);
        match sequence::below(sequence, is_exception, record, request, now) {
            Below::Answered(answer) => Ok(answer),
            Below::Claim => self.claim(request, now),
        }
    }
}
