//! The mistakes that a store can be made with.

/// One mistake. Most have been seen in a library or a script that was meant to do what a store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    // Claims
    /// Whoever asks while a worker has the key is told that the work is done.
    CallsClaimedWorkDone,
    /// Takes what failed for done.
    CallsFailedWorkDone,
    /// Looks at the owner before it looks at the state.
    RepeatsTheCompleted,
    /// Runs what is completed again, if a person sends it again.
    ReplaysTheCompleted,
    /// Looks first and writes later, with a gap between.
    ClaimsInTwoSteps,
    /// Keeps a key for one that never comes back.
    NeverTakesOver,
    /// Lets a lease of which nothing remains hold on.
    HoldsAtZero,
    /// Answers the same owner's second call like anybody else's.
    HoldsOffItsOwner,
    /// A repeated claim makes a new attempt of itself.
    CountsRepeats,
    /// A repeated claim resets the lease that a heartbeat has extended.
    RepeatShortens,
    /// Lets an owner acquire again after it has released.
    AcquiresAfterRelease,
    /// Takes the claim's lease from the one before.
    KeepsTheOldLease,
    // Tokens
    /// Takes tokens from the clock alone.
    TokensFromTheClock,
    /// Counts tokens per record, and starts over when the record is forgotten.
    TokensStartOver,
    // Writes
    /// Completes whatever the token.
    CompletesUnfenced,
    /// Releases whatever the token.
    ReleasesUnfenced,
    /// Extends whatever the token.
    ExtendsUnfenced,
    /// Takes any token that is not too old.
    AcceptsGreaterTokens,
    /// A heartbeat brings a released key back.
    ExtendRevives,
    /// A completion brings a released key back.
    CompleteRevives,
    /// A completed key can be released.
    ReleasesTheCompleted,
    /// Refuses to complete once the lease has run out, though nobody took over.
    CompletionExpires,
    /// Refuses to extend once the lease has run out, though nobody took over.
    ExtensionExpires,
    /// Refuses to release once the lease has run out, though nobody took over.
    ReleaseExpires,
    /// Extends from the end of the lease.
    ExtendsFromTheEnd,
    /// Answers `Applied` to a write for a key that it does not know.
    AppliesToNothing,
    /// Answers `Fenced` to a completion that is repeated.
    FencesRepeatedCompletions,
    /// The second completion of one lease replaces the first.
    OverwritesOutcomes,
    /// Answers `Fenced` to a release that is repeated.
    FencesRepeatedReleases,
    /// A release can be turned into another one.
    ReleasesTwice,
    /// Deletes the record when the work is done.
    ForgetsCompletions,
    // Attempts
    /// A takeover starts to count anew.
    ForgetsAttemptsOnTakeover,
    /// A failure starts to count anew.
    ForgetsAttemptsOnFailure,
    /// Counts what was never tried.
    CountsAbandoned,
    /// Goes on counting after giving up.
    CountsOnAfterGivingUp,
    /// Goes on counting in a replay.
    CountsOnInReplay,
    /// Never says that an attempt is in doubt.
    NeverInDoubt,
    /// Says for ever that an attempt is in doubt.
    AlwaysInDoubt,
    /// Thinks that an abandoned claim has cleared the doubt.
    AbandoningEndsDoubt,
    /// Runs the copies of a quarantined message.
    RunsTheQuarantined,
    /// Lets not even a replay run.
    QuarantinesForEver,
    // Retries
    /// Frees what failed at once, whatever the delay.
    RetriesEarly,
    /// Counts a claim that came too early.
    CountsWhatIsEarly,
    /// Lets other content wait for a key that it will not get.
    HoldsOtherContentBeforeTheRetry,
    /// Lets a replay wait.
    DelaysReplays,
    /// Keeps the delay when a replay has begun.
    KeepsTheDelay,
    /// Delays what asks for no delay.
    AlwaysDelays,
    /// Counts the delay from the end of the lease.
    DelaysFromTheEnd,
    /// A repeated failure puts off the retry.
    RepeatedFailuresDelay,
    /// Takes a failure that is repeated with another delay for another release.
    ComparesDelays,
    /// Forgets a delay that is longer than the retention.
    ForgetsTheDelayed,
    // Content
    /// Drops the fingerprint when the work completes.
    DropsFingerprints,
    /// Keeps half of the fingerprint, and compares it with a whole one.
    CutsFingerprints,
    /// Takes no fingerprint for one that differs.
    ComparesWithNothing,
    /// Never compares.
    IgnoresFingerprints,
    /// Refuses other content while a worker has the key.
    RefusesWhileInProgress,
    /// Refuses other content after giving up.
    RemembersWhatWasGivenUp,
    /// A replay does not clear the content of a quarantined key.
    RemembersWhatWasQuarantined,
    /// Refuses other content although nothing of it ran.
    RemembersWhatWasAbandoned,
    /// A claim without a fingerprint makes the key forget its content.
    ForgetsContent,
    // Retention
    /// Takes milliseconds for seconds.
    RetentionInMillis,
    /// Remembers the completed for as long as the claim asked.
    KeepsTheClaimsRetention,
    /// Looking at a completed key prolongs its memory.
    LookingProlongs,
    /// Never forgets what did not complete.
    NeverForgetsTheUnfinished,
    /// Forgets a key that is held, because its retention is over.
    ForgetsTheHeld,
    /// Forgets an attempt that vanished as soon as its lease and its retention are over.
    ForgetsTheVanished,
    /// An extension does not prolong the record.
    ExtensionsAreNoWrites,
    /// A release does not prolong the record.
    ReleasesAreNoWrites,
    // Bytes
    /// Compares keys as a case-insensitive collation does.
    FoldsCase,
    /// Has one record for all keys of a scope.
    OneRecordPerScope,
    /// Drops from keys what is not ASCII.
    KeysInAscii,
    /// Makes keys fit for file names.
    KeysAsFileNames,
    /// Has a column of 110 characters for keys.
    CutsKeys,
    /// Takes outcomes for text.
    OutcomesAsText,
    /// Takes an empty outcome for none.
    EmptyIsUnfinished,
    // Purge
    /// Purges everything at once.
    PurgesTooMany,
    /// Purges only what is completed.
    PurgesOnlyTheCompleted,
    /// Purges keys that are held.
    PurgesTheHeld,
    /// Purges what is remembered.
    PurgesTooEarly,
    // Durability
    /// Keeps its records in memory only.
    LosesItsRecords,
    /// Keeps the count of its tokens in memory only.
    LosesItsTokens,
    // Transactions
    /// Writes effects at once.
    EffectsAtOnce,
    /// Commits whatever the token.
    CommitsUnfenced,
    /// Loses the effects, but keeps the completion.
    LosesEffects,
    /// Believes a handler's transaction to be open.
    BelievesTheHandler,
    /// Forgets the attempt with its transaction.
    RollsBackItsRecord,
    /// Says that work is done while its transaction is open.
    CallsOpenWorkDone,
    /// Lends a transaction to duplicates.
    LendsToDuplicates,
}
