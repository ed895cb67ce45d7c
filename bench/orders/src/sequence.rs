//! Which orders the messages of a queue carry, one behind the other.
//!
//! Some messages, a tenth as a rule, are copies of earlier ones, evenly spread. Half of the copies come soon after, as
//! after a lost connection or a publisher's retry: their original may still be at work. The other half come late, as
//! from an outbox that is sent again: their original is long done.

use fastrand::Rng;

/// A copy that comes soon has at most so many messages between itself and what it copies.
const SOON: usize = 100;
/// A copy that comes late has at least so many: twice the greatest number of deliveries that any
/// contestant has in its hands at once.
const LATE: usize = 2_000;

/// The number of the order in each message. Orders are numbered from zero, without a gap; the same
/// number of messages and of copies in a hundred of them has the same orders each time.
pub(crate) fn orders(messages: usize, copies: u8) -> Vec<usize> {
    let mut random = Rng::with_seed(0);
    let mut orders = Vec::with_capacity(messages);
    let mut new = 0;
    for place in 0..messages {
        let before = copies_before(place, copies);
        if copies_before(place + 1, copies) > before {
            orders.push(orders[original(place, before, &mut random)]);
        } else {
            orders.push(new);
            new += 1;
        }
    }
    orders
}

/// How many of the messages before this place are copies.
fn copies_before(place: usize, of_a_hundred: u8) -> usize {
    place * usize::from(of_a_hundred) / 100
}

/// Where the message is that the one at `place`, behind so many other copies, copies.
fn original(place: usize, copies_before: usize, random: &mut Rng) -> usize {
    let comes_late = copies_before % 2 == 1;
    if comes_late {
        let newest = place.checked_sub(LATE).unwrap_or(place);
        random.usize(..newest.max(1))
    } else {
        place - random.usize(1..=SOON.min(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far each copy is behind the last message with the same order.
    fn distances(orders: &[usize]) -> Vec<usize> {
        let copies = (9..orders.len()).step_by(10);
        copies
            .map(|place| {
                let mut before = orders[..place].iter().rev();
                1 + before
                    .position(|order| *order == orders[place])
                    .expect("a copy has an original")
            })
            .collect()
    }

    #[test]
    fn so_many_of_the_messages_are_copies_and_no_order_is_left_out() {
        for (copies, distinct) in [(0, 50_000), (10, 45_000), (3, 48_500), (50, 25_000)] {
            let mut orders = orders(50_000, copies);
            orders.sort_unstable();
            orders.dedup();
            assert_eq!(orders, (0..distinct).collect::<Vec<_>>(), "{copies} %");
        }
    }

    #[test]
    fn half_of_the_copies_come_soon_and_half_of_them_late() {
        let distances = distances(&orders(50_000, 10));
        let soon = distances.iter().filter(|&&far| far <= SOON).count();
        let late = distances.iter().filter(|&&far| far >= LATE / 2).count();
        assert_eq!(distances.len(), 5_000);
        assert!((2_500..2_700).contains(&soon), "{soon}");
        assert!((2_200..2_500).contains(&late), "{late}");
    }

    #[test]
    fn each_run_has_the_same_orders() {
        assert_eq!(orders(1_000, 10), orders(1_000, 10));
        assert_ne!(orders(1_000, 10)[999], 999);
    }
}
