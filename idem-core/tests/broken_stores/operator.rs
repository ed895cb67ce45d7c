//! What the plain store shows to operators, and lets them change.

use std::time::{Duration, SystemTime};

use idem_core::{
    FencingToken, Key, Outcome, StoreError,
    operator::{
        Action, AuditEntry, Condition, Cursor, FailedReason, Intervened, Intervention, KeyRecord,
        KeyState, Listing, OperatorStore, Page, ScopeCounts, Seen,
    },
    store::{Look, Looked, Release},
};

use crate::{
    flaw::Flaw,
    record::{Record, State},
    store::{PlainStore, Shared},
};

impl Look for PlainStore {
    async fn look(&self, key: &Key) -> Result<Option<Looked>, StoreError> {
        let mut shared = self.shared();
        let name = self.name(key);
        let now = self.now();
        let Some(record) = shared.records.get_mut(&name) else {
            let condition = Condition::Completed { outcome_bytes: 0 };
            let record = KeyRecord::new(key.clone(), FencingToken::new(0), condition);
            return Ok(self
                .has(Flaw::ShowsWhatIsNot)
                .then(|| Looked::new(record, None)));
        };
        if self.has(Flaw::LooksProlong) {
            record.forget_at = now + record.retention;
        }
        if let State::InProgress { lease_ends } = &mut record.state
            && self.has(Flaw::LooksExtend)
        {
            *lease_ends = now + record.lease;
        }
        let outcome = match &record.state {
            State::Completed(outcome) => Some(self.as_shown(outcome)),
            _ => None,
        };
        Ok(Some(Looked::new(
            self.key_record(key.clone(), record),
            outcome,
        )))
    }
}

impl OperatorStore for PlainStore {
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let after = listing.after.as_ref().map_or("", Cursor::as_str);
        let mut chosen = self.all();
        chosen.retain(|record| record.key.as_str() > after && self.picks(listing, record));
        chosen.sort_by(|one, other| one.key.cmp(&other.key));
        let limit = listing.limit as usize;
        let is_last = chosen.len() <= limit || self.has(Flaw::ListsOnePage);
        chosen.truncate(limit);
        let last = chosen.last().filter(|_| !is_last);
        let next = last.map(|record| Cursor::new(record.key.as_str()));
        Ok(Page::new(chosen, Vec::new(), next))
    }

    async fn audit(&self, key: &Key) -> Result<Vec<AuditEntry>, StoreError> {
        let name = self.name(key);
        let shared = self.shared();
        let audit = shared.audit.iter().filter(|(noted, ..)| *noted == name);
        Ok(audit.map(|(.., entry)| entry.clone()).collect())
    }

    async fn counts(&self) -> Result<Vec<ScopeCounts>, StoreError> {
        let mut counts = ScopeCounts::of(&self.all());
        for scope in &mut counts {
            scope.quarantined *= u64::from(!self.has(Flaw::CountsNoQuarantine));
        }
        Ok(counts)
    }

    async fn intervene(&self, intervention: &Intervention) -> Result<Intervened, StoreError> {
        let mut shared = self.shared();
        let name = self.name(&intervention.key);
        let mut noted = shared.audit.iter();
        if !self.has(Flaw::RefusesRepeats) && noted.any(|it| it.1 == intervention.owner) {
            return Ok(Intervened::Applied);
        }
        let seen = shared.records.get(&name).map(seen);
        if let Some(answer) = self.objection(intervention, seen) {
            return Ok(answer);
        }
        if self.has(Flaw::IntervenesInTwoSteps) {
            drop(shared);
            std::thread::sleep(Duration::from_millis(1));
            shared = self.shared();
        }
        self.carry_out(&mut shared, &name, intervention);
        if !self.has(Flaw::NotesNothing) {
            let at = u64::try_from(self.now().as_micros()).expect("not so far away");
            let entry = AuditEntry::new(at, intervention.action, intervention.by.clone(), seen);
            shared.audit.push((name, intervention.owner, entry));
        }
        Ok(Intervened::Applied)
    }

    async fn prepare(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl PlainStore {
    fn all(&self) -> Vec<KeyRecord> {
        let shared = self.shared();
        let keys = shared.records.iter().map(|(name, record)| {
            let key = name.parse().expect("it is a key's text");
            self.key_record(key, record)
        });
        keys.collect()
    }

    fn picks(&self, listing: &Listing, record: &KeyRecord) -> bool {
        let mut listing = listing.clone();
        if self.has(Flaw::ListsEveryState) {
            listing.state = None;
        }
        if self.has(Flaw::ListsEveryAge) {
            listing.older_than = Duration::ZERO;
        }
        if self.has(Flaw::ListsWithoutCase) {
            let name = record.key.as_str().to_lowercase();
            return name.starts_with(&listing.prefix.to_lowercase());
        }
        let hidden = record.key.as_str().contains('~') && self.has(Flaw::HidesNumbered);
        listing.picks(record) && !hidden
    }

    fn key_record(&self, key: Key, record: &Record) -> KeyRecord {
        let now = self.now();
        let condition = match &record.state {
            State::InProgress { .. } if self.has(Flaw::ShowsTheWholeLease) => {
                Condition::InProgress {
                    lease_remaining: record.lease,
                }
            }
            State::InProgress { lease_ends } => Condition::InProgress {
                lease_remaining: lease_ends.saturating_sub(now),
            },
            State::Completed(outcome) => Condition::Completed {
                outcome_bytes: outcome.as_bytes().len() as u64,
            },
            State::Released(release) => self.failed(release, record.not_before),
        };
        let mut shown = KeyRecord::new(key, FencingToken::new(record.token), condition);
        shown.attempts = record.attempts;
        shown.in_doubt = record.in_doubt;
        shown.owner = Some(record.owner);
        shown.fingerprint = record.fingerprint;
        let moment = |at| SystemTime::UNIX_EPOCH + at;
        shown.created_at = Some(moment(record.created_at));
        let is_completed = matches!(record.state, State::Completed(_));
        shown.completed_at = is_completed.then(|| moment(record.written_at));
        shown.age = now.saturating_sub(record.written_at);
        shown.remembered_for = record.forget_at.saturating_sub(now);
        shown
    }

    fn failed(&self, release: &Release, not_before: Duration) -> Condition {
        let (reason, error) = match release {
            Release::Failed { error, .. } => (FailedReason::Failed, Some(error)),
            Release::GaveUp { error } => (FailedReason::GaveUp, Some(error)),
            Release::Quarantined if self.has(Flaw::ShowsNoReason) => (FailedReason::Failed, None),
            Release::Quarantined => (FailedReason::Quarantined, None),
            _ => (FailedReason::Abandoned, None),
        };
        Condition::Failed {
            reason,
            error: error.filter(|_| !self.has(Flaw::HidesErrors)).cloned(),
            retry_in: not_before.saturating_sub(self.now()),
        }
    }

    fn as_shown(&self, outcome: &Outcome) -> Outcome {
        if self.has(Flaw::ShowsOutcomesAsText) {
            let text = String::from_utf8_lossy(outcome.as_bytes());
            return Outcome::new(text.into_owned());
        }
        outcome.clone()
    }

    /// Why nothing is done.
    fn objection(&self, intervention: &Intervention, seen: Option<Seen>) -> Option<Intervened> {
        let expected = intervention.seen;
        let fine = if self.has(Flaw::ComparesTokensAlone) {
            seen.map(|it| it.token) == expected.map(|it| it.token)
        } else {
            seen == expected
        };
        if !fine && !self.has(Flaw::IgnoresWhatWasSeen) {
            return Some(Intervened::Changed);
        }
        let fit = match (intervention.action, seen) {
            (Action::Complete, None) if self.has(Flaw::CompletesOnlyTheKnown) => false,
            (Action::Release, Some(_)) if self.has(Flaw::FreesTheCompleted) => true,
            _ => intervention.is_fit(),
        };
        let answer = if self.has(Flaw::AppliesInterventionsToNothing) {
            Intervened::Applied
        } else {
            Intervened::Unfit
        };
        (!fit).then_some(answer)
    }

    fn carry_out(&self, shared: &mut Shared, name: &str, intervention: &Intervention) {
        let token = self.next_token(shared.records.get(name), shared.floor);
        let record = shared.records.get_mut(name);
        match (intervention.action, record) {
            (Action::Release, Some(record)) => self.free(record, token),
            (Action::Forget, Some(record)) if self.has(Flaw::ForgetsTheLeaseAlone) => {
                if let State::InProgress { lease_ends } = &mut record.state {
                    *lease_ends = Duration::ZERO;
                }
            }
            (Action::Forget, _) => shared.remove(name),
            (Action::Complete, Some(record)) => {
                self.finish(record, token, intervention);
            }
            _ => {
                let mut record = Record::unknown(intervention.owner, token);
                record.created_at = self.now();
                self.finish(&mut record, token, intervention);
                shared.records.insert(name.to_owned(), record);
            }
        }
    }

    fn free(&self, record: &mut Record, token: i64) {
        let error = match &record.state {
            State::InProgress { .. } => {
                record.in_doubt = true;
                "released"
            }
            State::Released(Release::Quarantined) if self.has(Flaw::KeepsQuarantine) => return,
            State::Released(Release::Quarantined) => {
                record.in_doubt = false;
                ""
            }
            _ => "",
        };
        record.state = State::Released(Release::failed(error));
        record.written_at = self.now();
        if !self.has(Flaw::FreesForLater) {
            record.not_before = Duration::ZERO;
        }
        if !self.has(Flaw::FreesUnderTheSameToken) {
            record.token = token;
        }
        record.forget_at = self.now() + record.retention;
    }

    fn finish(&self, record: &mut Record, token: i64, intervention: &Intervention) {
        record.state = State::Completed(intervention.outcome.clone());
        record.written_at = self.now();
        if self.has(Flaw::CompletesAnyContent) {
            record.fingerprint = None;
        }
        if !self.has(Flaw::CompletesUnderTheSameToken) {
            record.token = token;
        }
        record.retention = intervention.retention;
        record.forget_at = self.now() + record.retention;
    }
}

fn seen(record: &Record) -> Seen {
    let state = match record.state {
        State::InProgress { .. } => KeyState::InProgress,
        State::Completed(_) => KeyState::Completed,
        State::Released(_) => KeyState::Failed,
    };
    let token = FencingToken::new(record.token);
    Seen { state, token }
}
