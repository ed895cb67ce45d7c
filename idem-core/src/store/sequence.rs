//! Sequences: producers that number their messages, of which a store keeps a mark and a window.

use crate::store::Store;

#[cfg(test)]
#[cfg_attr(
    not(any(feature = "postgres", feature = "redis", feature = "sqlite")),
    allow(dead_code, reason = "memory has no tests of its own about sequences")
)]
pub(crate) mod scene;

/// A store that keeps sequences: for each producer one mark, below which all is done, and records
/// of the numbers above it only.
///
/// A producer numbers its messages without a gap; producer and epoch name the sequence. The store
/// keeps the sequence's mark, a window of records from there on, and as *exceptions* those numbers
/// below the mark that were not done.
///
/// An implementation keeps these rules beside those of [`Store`], and answers `true` to
/// [`keeps`](Store::keeps) for sequences; the conformance suite (list `SequenceStore`) holds it to
/// them.
///
/// 1. [`Store::claim`] with a [position](crate::store::ClaimRequest::position) in a sequence looks at the sequence and
///    claims the key in one atomic step, serialised with all other claims of that sequence.
/// 2. A sequence begins with the number of its first claim that [may begin](crate::message::SequencePlace::begins) it
///    and is no replay: the mark is that number. Of what came before nobody knows: exactly the ordinary
///    rules of [`Store::claim`] decide about a number below the one that the sequence began with, and
///    about all while there is no sequence.
/// 3. From the mark on and inside the window the ordinary rules decide, too.
///    A number from mark and window on, or one that is too great, is
///    [`OutOfPlace::Ahead`](crate::store::OutOfPlace::Ahead), for a replay too.
/// 4. Once the sequence has begun, the mark moves when a number is claimed that is half a window above it, or when a
///    number from the mark on is claimed and an eighth of the retention has passed since that last happened; at most
///    over a window or 1,024 numbers at once, and never over the number that is claimed. It passes numbers that are
///    completed, whose records it removes, and numbers that were given up, quarantined, or completed with a rejection,
///    which become exceptions. It stops at one that is in progress, or failed and to be tried again, or whose record
///    the store cannot read, and at one that has no record.
/// 5. Missing numbers it passes only if it is asked to: if claims with a
///    [`skip_after`](crate::message::SequencePlace::skip_after) have been ahead for so long, while the mark did not
///    move, and without a pause of half that time, or of 2 min if that is shorter. Then it passes all
///    of the window that are missing below the highest one that has a record, or all of the window if none
///    has, up to one that is waited for. They become exceptions.
/// 6. Below the mark nothing is acquired that is done, not even by a replay: with its record, it is
///    answered by the ordinary rules, and without one it is
///    [`Claim::Completed`](crate::store::Claim::Completed) with an outcome that is
///    [forgotten](crate::handler::Answer::Forgotten).
/// 7. An exception is [`OutOfPlace::Late`](crate::store::OutOfPlace::Late) unless it has a record by which the ordinary
///    rules decide: completed, quarantined, in progress, or failed and to be tried again. A replay is always decided by
///    the ordinary rules. What may be an exception, because the store does not know all of them any more, is taken for
///    one.
/// 8. Each eighth of the retention, the sequence is kept for the retention from then on, and so are the records from
///    the mark on at least, but for those that are in progress or to be tried again; then it begins anew. So what the
///    mark has passed stays known for seven eighths of the retention after it was done, and nothing that is done is
///    forgotten in the window of a producer that goes on, also of a wider window of before. A claim below the mark
///    keeps nothing. Exceptions stay as long as the sequence. [`purge`](crate::store::Purge::purge) removes both and
///    counts them, or the store removes them by itself.
/// 9. `Err` means *unknown*; every call may be repeated without harm. A completion that is repeated
///    after the mark has passed its number is [fenced](crate::store::Write::Fenced); the claim that follows
///    is told that it is done.
///
/// # Cancel safety
/// A dropped future leaves the write unknown, as an `Err` does.
pub trait SequenceStore: Store {}
