//! Deliberate breakages: the model must notice each of them.

/// One rule that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The store does not compare tokens.
    NoFencing,
    /// A key is taken over although its lease has not run out.
    LeaseIsIgnored,
    /// A takeover is given the token of the lease that it takes over.
    TakeoverKeepsToken,
    /// A takeover is not told that the attempt before ended without a word.
    TakeoverWithoutDoubt,
    /// An owner whose lease was ended acquires again, as if it were new.
    EndedOwnerAcquires,
    /// A completion that has taken effect is fenced when it is repeated.
    RepeatIsRefused,
    /// A message is acknowledged when its handler has returned, and then completed.
    AckBeforeCompletion,
    /// A dead-lettered message is acknowledged before the dead letter is confirmed.
    AckBeforeDeadLetter,
    /// A key that another worker holds is taken for a duplicate.
    ConflictIsDuplicate,
    /// A message whose key is held is dropped, as a copy would be, also if it is delivered again and may hold the key
    /// itself.
    RedeliveryIsDropped,
    /// So is a copy whose own claim was not answered, and may still arrive.
    UnansweredIsDropped,
    /// A message whose attempt failed is dropped, as one that is given up would be.
    FailureIsDropped,
    /// So is one in doubt, which is for a person to look at.
    DoubtIsDropped,
    /// A completion that was not answered is taken for a failed attempt.
    ReleaseUnknownCompletion,
    /// A commit that was not answered is taken for a commit.
    TrustUnknownCommit,
    /// A message that is delivered again is claimed for the same owner as before.
    OwnerIsKept,
    /// The verdict on a delivery whose channel has ended reaches another channel's delivery.
    VerdictOnNewChannel,
}
