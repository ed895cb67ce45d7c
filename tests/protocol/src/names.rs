//! Names without meaning: two worlds that differ only in them are made the same.

use idem_core::FencingToken;

use crate::{
    Ask, Delivery, World,
    store::{number_of, owner_named},
};

/// Of a key's last claim.
const LAST: u8 = 0;

impl World {
    /// A number that is no owner's of this key yet.
    pub(crate) fn new_owner(&self, message: usize) -> u8 {
        let owners = self
            .deliveries(message)
            .filter_map(|delivery| delivery.owner);
        let known = self
            .last_owner(message)
            .into_iter()
            .chain(self.owners_under_way(message));
        known
            .chain(owners)
            .max()
            .map_or(LAST, |greatest| greatest + 1)
    }

    /// Tokens become small numbers in the same order, owners small numbers, and an owner that
    /// nobody else knows none at all.
    pub(crate) fn settle_names(&mut self) {
        for message in 0..self.messages.len() {
            self.settle_tokens(message);
            self.settle_owners(message);
        }
        self.under_way.sort_unstable();
    }

    fn settle_tokens(&mut self, message: usize) {
        let its = &self.messages[message];
        let kept = its.kept.last_claim().map(|(token, _)| token);
        let deliveries = self.deliveries(message).filter_map(Delivery::token);
        let calls = self.under_way.iter().filter(|call| call.message == message);
        let tokens: Numbers = deliveries
            .chain(calls.filter_map(|call| call.ask.token()))
            .chain(kept)
            .chain(its.completed_by)
            .map(FencingToken::get)
            .collect();
        let new = |old: FencingToken| FencingToken::new(tokens.rank(old.get()));
        for delivery in self.workers.iter_mut().flatten() {
            if delivery.message == message {
                delivery.rename_token(new);
            }
        }
        for call in &mut self.under_way {
            if call.message == message {
                call.ask.rename_token(new);
            }
        }
        let its = &mut self.messages[message];
        its.completed_by = its.completed_by.map(new);
        if let Some((token, owner)) = its.kept.last_claim() {
            its.kept.rename(new(token), owner);
        }
    }

    fn settle_owners(&mut self, message: usize) {
        let last = self.last_owner(message);
        let under_way: Numbers = self.owners_under_way(message).map(i64::from).collect();
        let new = |old: u8| {
            if Some(old) == last {
                return Some(LAST);
            }
            let rank = under_way.rank(i64::from(old));
            let new = u8::try_from(rank).expect("owners are few");
            under_way.contains(i64::from(old)).then_some(new)
        };
        for delivery in self.workers.iter_mut().flatten() {
            if delivery.message == message {
                let needed = delivery.owner.filter(|_| delivery.may_claim_again());
                delivery.owner = needed.and_then(new);
            }
        }
        for call in &mut self.under_way {
            if let (true, Ask::Claim(owner)) = (call.message == message, &mut call.ask) {
                *owner = new(*owner).expect("it is under way");
            }
        }
        let kept = &mut self.messages[message].kept;
        if let Some((token, _)) = kept.last_claim() {
            kept.rename(token, owner_named(LAST));
        }
    }

    fn last_owner(&self, message: usize) -> Option<u8> {
        let last = self.messages[message].kept.last_claim();
        last.map(|(_, owner)| number_of(owner))
    }

    /// Owners whose claims may yet arrive.
    fn owners_under_way(&self, message: usize) -> impl Iterator<Item = u8> {
        let calls = self.under_way.iter();
        calls.filter_map(move |call| match call.ask {
            Ask::Claim(owner) if call.message == message => Some(owner),
            _ => None,
        })
    }
}

/// A set of small numbers.
struct Numbers(u64);

impl Numbers {
    /// How many are as small as this one or smaller.
    fn rank(&self, number: i64) -> i64 {
        i64::from((self.0 & (u64::MAX >> (63 - number))).count_ones())
    }

    fn contains(&self, number: i64) -> bool {
        self.0 & (1 << number) != 0
    }
}

impl FromIterator<i64> for Numbers {
    fn from_iter<I: IntoIterator<Item = i64>>(numbers: I) -> Self {
        Self(numbers.into_iter().fold(0, |all, number| all | 1 << number))
    }
}
