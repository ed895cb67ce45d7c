//! Names of orders, no two alike.

use std::sync::atomic::{AtomicU64, Ordering};

/// Hands out names that are as scattered as random ones, and never repeats one.
#[derive(Debug)]
pub(crate) struct Names {
    run: u64,
    next: AtomicU64,
}

impl Names {
    /// Names that no other run hands out, as far as chance goes.
    pub(crate) fn new() -> Self {
        Self::of_run(fastrand::u64(..))
    }

    fn of_run(run: u64) -> Self {
        Self {
            run,
            next: AtomicU64::new(0),
        }
    }

    /// A name that was never handed out before.
    pub(crate) fn next(&self) -> String {
        self.name(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// How many were handed out.
    pub(crate) fn handed_out(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The name that was, or will be, the `number`th, counted from zero.
    pub(crate) fn name(&self, number: u64) -> String {
        format!("{:016x}", scattered(number.wrapping_add(self.run)))
    }
}

/// A permutation of all numbers, after which neighbours are far apart: that of `SplitMix64`.
fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Names;

    #[test]
    fn no_name_is_handed_out_twice() {
        let names = Names::new();
        let distinct: HashSet<_> = (0..10_000).map(|_| names.next()).collect();
        assert_eq!(distinct.len(), 10_000);
        assert_eq!(names.handed_out(), 10_000);
    }

    #[test]
    fn a_name_can_be_told_again() {
        let names = Names::of_run(7);
        let [first, second] = [names.next(), names.next()];
        assert_eq!([names.name(0), names.name(1)], [first, second]);
    }
}
