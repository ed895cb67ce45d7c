//! Which messages of a stream are called with next, where the mark alone says what is done. Pure.
//!
//! A call has those that follow one another from the mark on. If it fails, fewer are called with, by halves, until the
//! message is found that calls fail of: that one is handled alone. What must stay true: messages are taken in their
//! order, none is left out, and one that has to be alone shares no call.

use std::collections::VecDeque;

use crate::handler::BatchOptions;

/// The messages that wait, and how many of them are called with.
#[derive(Debug)]
pub struct Stretches<T> {
    waiting: VecDeque<T>,
    batch: BatchOptions,
    /// How many a call has at most: all that may be, and fewer after one that had to be looked for.
    size: usize,
    /// Among so many of the next ones is one that calls fail of; 0 if none is looked for. At 1 it is found.
    suspects: usize,
}

/// A message that may wait for a call.
pub trait Waits {
    /// How large its body is.
    fn bytes(&self) -> usize;

    /// Whether it is handled alone in any case.
    fn is_alone(&self) -> bool;
}

/// What is handled next.
#[derive(Debug, PartialEq, Eq)]
pub enum NextCall<T> {
    /// This message, by itself: then [`Stretches::passed`] is told.
    Alone(T),
    /// These, in one call.
    Together(Vec<T>),
}

impl<T: Waits> Stretches<T> {
    /// None yet.
    pub fn new(batch: BatchOptions) -> Self {
        Self {
            waiting: VecDeque::new(),
            batch,
            size: batch.most(),
            suspects: 0,
        }
    }

    /// The next message of the stream.
    pub fn arrives(&mut self, message: T) {
        self.waiting.push_back(message);
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no further message would be taken with those that wait.
    pub fn is_full(&self) -> bool {
        let mut bytes = 0_usize;
        let wanted = self.wanted();
        for (at, message) in self.waiting.iter().take(wanted).enumerate() {
            bytes = bytes.saturating_add(message.bytes());
            let is_last = at + 1 == wanted || bytes >= self.batch.most_bytes();
            if is_last || message.is_alone() {
                return true;
            }
        }
        self.suspects == 1
    }

    /// How many the next call has at most: the half in which the one is looked for that calls fail of, or all.
    fn wanted(&self) -> usize {
        match self.suspects {
            0 => self.size,
            suspects => suspects.div_ceil(2),
        }
    }

    /// Takes what is handled next; `None` if nothing waits.
    pub fn take(&mut self) -> Option<NextCall<T>> {
        let first = self.waiting.pop_front()?;
        if first.is_alone() || self.suspects == 1 {
            return Some(NextCall::Alone(first));
        }
        let wanted = self.wanted();
        // The first one goes whatever its size.
        let mut bytes = first.bytes();
        let mut taken = vec![first];
        while taken.len() < wanted
            && let Some(next) = self.waiting.pop_front_if(|next| {
                bytes = bytes.saturating_add(next.bytes());
                !next.is_alone() && bytes <= self.batch.most_bytes()
            })
        {
            taken.push(next);
        }
        Some(NextCall::Together(taken))
    }

    /// Notes that so many are done.
    pub fn passed(&mut self, count: usize) {
        if self.suspects == 0 {
            // The last failure is past: calls grow again.
            self.size = self.size.saturating_mul(2).min(self.batch.most());
        } else {
            self.suspects = self.suspects.saturating_sub(count);
        }
    }

    /// A call with these was undone: one of them is what it failed of. Says whether that is the first of the calls in
    /// which it is looked for.
    pub fn undone(&mut self, messages: Vec<T>) -> bool {
        let is_first = self.suspects == 0;
        self.suspects = messages.len();
        // There may be more like it.
        self.size = 1;
        self.give_back(messages);
        is_first
    }

    /// The first of these is to be handled alone.
    pub fn next_is_alone(&mut self, messages: Vec<T>) {
        self.suspects = usize::from(!messages.is_empty());
        self.give_back(messages);
    }

    /// Puts messages back in front, in their order: none of them is done.
    pub fn give_back(&mut self, messages: Vec<T>) {
        for message in messages.into_iter().rev() {
            self.waiting.push_front(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its number, its size, and whether it is alone.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Message(usize, usize, bool);

    impl Waits for Message {
        fn bytes(&self) -> usize {
            self.1
        }

        fn is_alone(&self) -> bool {
            self.2
        }
    }

    fn of(sizes: &[usize], most: usize) -> Stretches<Message> {
        let mut stretches = Stretches::new(BatchOptions::new(most).bytes(100));
        for (number, size) in sizes.iter().enumerate() {
            // A size of 0 stands for one that is alone.
            stretches.arrives(Message(number, *size, *size == 0));
        }
        stretches
    }

    /// All that is handled, in its order, when calls with this one fail: the sizes of the calls, 0 for one alone.
    fn handled(stretches: &mut Stretches<Message>, bad: Option<usize>) -> Vec<usize> {
        let (mut calls, mut next, mut is_first) = (Vec::new(), 0, true);
        while let Some(taken) = stretches.take() {
            match taken {
                NextCall::Alone(message) => {
                    assert_eq!(message.0, next, "none is left out");
                    next += 1;
                    calls.push(0);
                    stretches.passed(1);
                }
                NextCall::Together(messages) => {
                    calls.push(messages.len());
                    let numbers = messages.iter().map(|message| message.0);
                    assert!(numbers.eq(next..next + messages.len()));
                    if messages.iter().any(|message| Some(message.0) == bad) {
                        assert_eq!(stretches.undone(messages), is_first);
                        is_first = false;
                    } else {
                        next += messages.len();
                        stretches.passed(messages.len());
                    }
                }
            }
        }
        calls
    }

    #[test]
    fn calls_have_as_many_as_wait_and_fit() {
        assert_eq!(handled(&mut of(&[1; 10], 4), None), [4, 4, 2]);
        assert_eq!(
            handled(&mut of(&[60, 40, 1, 200, 1], 4), None),
            [2, 1, 1, 1]
        );
        assert_eq!(handled(&mut of(&[1, 1, 0, 1, 0], 4), None), [2, 0, 1, 0]);
    }

    #[test]
    fn the_one_that_calls_fail_of_is_found_by_halves_and_handled_alone() {
        assert_eq!(
            handled(&mut of(&[1; 8], 8), Some(0)),
            [8, 4, 2, 1, 0, 1, 2, 4]
        );
        assert_eq!(handled(&mut of(&[1; 8], 8), Some(5)), [8, 4, 2, 1, 0, 1, 1]);
        assert_eq!(handled(&mut of(&[1], 8), Some(0)), [1, 0]);
        for bad in 0..256 {
            let calls = handled(&mut of(&[1; 256], 256), Some(bad));
            assert!(calls.len() <= 24, "{bad}: {calls:?}");
            assert_eq!(calls.iter().filter(|size| **size == 0).count(), 1);
        }
    }

    #[test]
    fn a_failure_that_does_not_come_again_is_forgotten() {
        let mut stretches = of(&[1; 8], 4);
        let Some(NextCall::Together(four)) = stretches.take() else {
            panic!("four wait")
        };
        stretches.undone(four);
        assert_eq!(handled(&mut stretches, None), [2, 1, 0, 1, 2, 1]);
        assert_eq!(stretches.wanted(), 4);
    }

    #[test]
    fn a_call_is_full_if_nothing_more_would_be_taken() {
        assert!(!of(&[], 4).is_full());
        assert!(!of(&[1, 1, 1], 4).is_full());
        assert!(of(&[1, 1, 1, 1], 4).is_full());
        assert!(of(&[60, 40], 4).is_full());
        // The first, or the next, is handled alone.
        assert!(of(&[0, 1], 4).is_full());
        assert!(of(&[1, 0], 4).is_full());
        let mut stretches = of(&[1; 3], 4);
        stretches.next_is_alone(Vec::new());
        assert!(!stretches.is_full());
        stretches.next_is_alone(vec![Message(9, 1, false)]);
        assert!(stretches.is_full());
    }

    #[test]
    fn of_those_that_were_not_called_with_the_first_is_handled_alone() {
        let mut stretches = of(&[1; 4], 4);
        let Some(NextCall::Together(mut four)) = stretches.take() else {
            panic!("four wait")
        };
        let rest = four.split_off(1);
        stretches.passed(1);
        stretches.next_is_alone(rest);
        assert_eq!(
            stretches.take(),
            Some(NextCall::Alone(Message(1, 1, false)))
        );
        stretches.passed(1);
        assert_eq!(handled(&mut of(&[], 4), None), [0; 0]);
        assert!(matches!(stretches.take(), Some(NextCall::Together(two)) if two.len() == 2));
    }
}
