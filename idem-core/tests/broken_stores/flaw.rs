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
    /// Takes over for a claim that only asks for what its owner has.
    AlwaysTakesOver,
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
    /// Takes a record out, waits, and puts it back as it shall be.
    WritesInTwoSteps,
    /// Writes the effects, waits, and completes.
    CommitsInTwoSteps,
    /// Takes its time from the worker.
    AsksTheWorkerForTheTime,
    // Claims ahead
    /// Claims when the transaction is opened.
    PromisesOnly,
    /// Extends no claim whose transaction is not open.
    ExtendsNothingAhead,
    /// Opens a transaction for a claim ahead, and loses the lease.
    OpensUnderAnotherToken,
    // Groups
    /// Keeps what was written in a slot that was dropped.
    KeepsDroppedSeats,
    /// Commits each message of a group when it leaves.
    CommitsEachSeat,
    /// Rolls back whoever does not wait for the group's end.
    ForgetsWhoDoesNotWait,
    /// Waits for one who has left the queue.
    WaitsForTheGone,
    // Batches
    /// Completes those of a batch that it can.
    CompletesPartOfABatch,
    /// Keeps what was written in a transaction that was rolled back.
    KeepsWhatABatchRolledBack,
    // Entities
    /// Commits everything but the entity.
    LosesEntities,
    /// Shows entities before the commit.
    EntitiesAtOnce,
    /// Takes every error for a violation.
    ViolatedByAnything,
    /// Takes the violation of another constraint for that of the entity's.
    ViolatedByAnyConstraint,
    /// Takes a row that was there before for the handler's own.
    TakesAnyRow,
    /// Commits without an entity.
    CommitsWithoutEntity,
    /// Leaves the record of an attempt beside the entity.
    KeepsAttempts,
    /// Ends an attempt by looking.
    LookingEndsAttempts,
    /// Ends whatever attempt there is at what is recorded.
    EndsOthersAttempts,
    /// Takes any constraint.
    AcceptsAnyConstraint,
    // Sessions
    /// Takes no notice of sessions.
    IgnoresSessions,
    /// Says that it keeps no sessions.
    DeniesSessions,
    /// Runs nothing in sessions.
    RefusesSessions,
    /// Takes a session that it does not know for one that has just begun.
    RunsWithoutASession,
    /// Keeps answers by their number alone.
    OneSessionForAll,
    /// Claims the request's key, whatever its place.
    BelievesTheKey,
    /// A second opening starts the session over.
    OpensAgain,
    /// A second opening changes window and life.
    ReopeningChanges,
    /// Has no room for wide windows.
    CapsWindows,
    /// Looks at a session first and writes it later, with a gap between.
    SessionsInTwoSteps,
    // Marks
    /// Expects numbers in order.
    OrdersNumbers,
    /// Runs any number above the mark.
    HasNoWindow,
    /// A number beyond the window moves the mark.
    MovesTheMarkBeyond,
    /// A stale number moves the mark.
    MovesTheMarkOfTheStale,
    /// Never moves the mark.
    KeepsTheMark,
    /// Runs what is below the mark by the ordinary rules.
    RunsTheStale,
    /// Believes the last request, however late it comes.
    MarkMovesBack,
    /// Keeps numbers in 32 bits.
    CutsNumbers,
    /// Keeps the answers that nobody awaits.
    KeepsPassedAnswers,
    /// Removes the answer at the mark, too.
    RemovesOneTooMany,
    /// Removes a window of answers below the mark, and not those that the mark has leapt over.
    RemovesBelowTheMarkOnly,
    /// Removes what is in progress with the answers.
    RemovesWhatIsInProgress,
    /// Forgets the records of a session that lives when their retention ends.
    ForgetsInSessions,
    // Lives
    /// Lets sessions live for ever.
    NeverEndsSessions,
    /// Ends sessions at half of their life.
    EndsSessionsEarly,
    /// A touch prolongs nothing.
    TouchIsNoSign,
    /// A claim prolongs nothing.
    ClaimIsNoSign,
    /// Only a claim inside of the window prolongs the session.
    OnlyWorkIsASign,
    /// A touch brings an ended session back.
    TouchRevives,
    /// Closing removes answers only.
    CloseIsForgotten,
    /// Closing leaves the answers to the next removal.
    CloseKeepsAnswers,
    /// Closing deletes the session, so that its opening may come again.
    CloseForgetsTheSession,
    /// Closing makes a session of an unknown one.
    ClosesTheUnknown,
    // Removal of sessions
    /// Removes nothing.
    ExpiresNothing,
    /// Counts the life from the opening.
    ExpiresTheLiving,
    /// Removes what has ended at once.
    ExpiresAtOnce,
    /// Keeps sessions for no longer than their life, however short it is.
    KeepsShortSessionsShort,
    /// Removes all at once.
    ExpiresTooMany,
    /// Removes records that belong to no session.
    ExpiresEverything,
    /// Removes sessions and forgets their answers.
    ExpiryLeavesAnswers,
    // Sequences
    /// Takes no notice of sequences.
    IgnoresSequences,
    /// Says that it keeps no sequences.
    DeniesSequences,
    /// Keeps all sequences under one name.
    OneSequenceForAll,
    /// Looks at a sequence first and writes it later, with a gap between.
    SequencesInTwoSteps,
    /// Runs messages in their order only.
    OrdersMessages,
    /// Runs whatever is above the mark.
    RunsAhead,
    /// Has numbers without an end.
    HasNoGreatestNumber,
    /// Remembers that a number is done, and not what came of it.
    ForgetsOutcomesAtOnce,
    /// Lets every sequence begin with 0.
    BeginsAtZero,
    /// Takes what came before the number that a sequence began with for done.
    BelievesWhatCameBefore,
    /// Takes it for late.
    RefusesWhatCameBefore,
    /// Lets a message that was delivered before begin a sequence.
    BeginsWithAny,
    /// Lets a replay begin a sequence.
    ReplaysBegin,
    /// Never moves the mark of a sequence.
    NeverMovesTheMark,
    /// Moves the mark only when half a window has come.
    WaitsForHalfAWindow,
    /// Keeps the records that the mark has passed.
    KeepsPassedRecords,
    /// Passes the number that is claimed, if it is done.
    PassesTheClaimed,
    /// Passes what a worker has in hand.
    PassesWhatIsInProgress,
    /// Passes what is to be tried again.
    PassesWhatFailed,
    /// Passes what never came.
    PassesGaps,
    /// Waits for dead letters.
    StopsAtTheGivenUp,
    /// Waits for what is quarantined.
    StopsAtTheQuarantined,
    /// Skips no gap.
    NeverSkips,
    /// Skips a gap as soon as it keeps somebody waiting.
    SkipsAtOnce,
    /// Skips a gap that keeps nobody waiting.
    SkipsInsideTheWindow,
    /// Skips one gap at a time.
    SkipsOneGap,
    /// Skips what may yet come, above all that has come.
    SkipsWhatMayCome,
    /// Skips nothing of a window of which nothing came.
    SkipsNoWideGap,
    /// Skips all of a wide gap, also what is beyond the window.
    SkipsBeyondTheWindow,
    /// Counts how long the mark has stood still, whoever waited meanwhile.
    SkipsAfterAPause,
    /// Counts from the first gap on, wherever the mark is now.
    SkipsTheNextGapAtOnce,
    /// Takes what was refused for done.
    BelievesRefusals,
    /// Skips what is to be tried again.
    SkipsWhatFailed,
    /// Runs what is below the mark by the ordinary rules.
    RunsWhatIsBelow,
    /// Runs a replay of what is done and passed.
    ReplaysWhatIsDone,
    /// Forgets which numbers below the mark are not done.
    ForgetsExceptions,
    /// Remembers them for as long as they have records.
    ExceptionsFollowRecords,
    /// Takes what is below the mark for late, though a replay of it is under way.
    ExceptionsAreAlwaysLate,
    /// Runs no replay of what is below the mark.
    RefusesReplaysBelow,
    /// Runs any copy of a dead letter below the mark.
    RunsTheGivenUpBelow,
    /// Counts the retention from the beginning of the sequence.
    CountsFromTheBeginning,
    /// Takes no notice of a producer whose numbers are ahead.
    AheadIsNoSign,
    /// Forgets a sequence before the retention ends.
    ExpiresEarly,
    /// Never forgets a sequence.
    NeverExpiresSequences,
    /// Forgets what is in the window of a sequence that is known.
    KeepsNoWindow,
    /// Keeps what is to be tried again for ever.
    KeepsWhatFailed,
    /// Forgets what is above the window that was narrowed.
    KeepsTheNarrowWindow,
    /// Takes a copy of what is done for a sign that its producer goes on.
    CopiesAreASign,
    /// Looks at a sequence when the retention of the last look says so.
    LooksTooLate,
    /// Does not say for how long it knows that a number is done.
    TellsNoTime,
    /// Leaves the exceptions of an earlier sequence to the one that begins.
    KeepsOldExceptions,
    /// Clears up when a sequence begins.
    BeginsWithoutRecords,
    /// Leaves sequences for ever.
    PurgesNoSequences,
    /// Purges sequences of which it has heard just now.
    PurgesKnownSequences,
    // Operators
    /// Ends a listing with its first page.
    ListsOnePage,
    /// Lists keys whatever their state.
    ListsEveryState,
    /// Lists keys whatever their age.
    ListsEveryAge,
    /// Compares the heads of names without their case.
    ListsWithoutCase,
    /// Lists no keys with a number.
    HidesNumbered,
    /// Takes quarantined keys for others that failed.
    CountsNoQuarantine,
    /// Remembers a key anew when somebody looks at it.
    LooksProlong,
    /// Extends a lease when somebody looks at its key.
    LooksExtend,
    /// Shows the lease, and not what is left of it.
    ShowsTheWholeLease,
    /// Shows outcomes as text.
    ShowsOutcomesAsText,
    /// Shows no errors.
    HidesErrors,
    /// Shows a quarantined key like any other that failed.
    ShowsNoReason,
    /// Shows a record where there is none.
    ShowsWhatIsNot,
    /// Takes every attempt at a key for its first.
    CreatesWithEachAttempt,
    /// Takes a key that was forgotten for the one from before.
    CreatesOnce,
    /// Takes the last claim of a completed key for its completion.
    CompletesWhenClaimed,
    /// Lets a key that was freed by hand wait for its retry.
    FreesForLater,
    /// Lets only a replay run, whatever an operator says.
    KeepsQuarantine,
    /// Frees what is completed.
    FreesTheCompleted,
    /// Forgets a key by ending its lease.
    ForgetsTheLeaseAlone,
    /// Forgets the content of what is completed by hand.
    CompletesAnyContent,
    /// Completes by hand only what has come.
    CompletesOnlyTheKnown,
    /// Answers that it has done what makes no sense.
    AppliesInterventionsToNothing,
    /// Takes a repeated intervention for another one.
    RefusesRepeats,
    /// Keeps no record of interventions.
    NotesNothing,
    /// Frees a key without a new token.
    FreesUnderTheSameToken,
    /// Completes a key by hand without a new token.
    CompletesUnderTheSameToken,
    /// Intervenes whatever has become of the key.
    IgnoresWhatWasSeen,
    /// Looks at the token alone.
    ComparesTokensAlone,
    /// Looks first and changes later, with a gap between.
    IntervenesInTwoSteps,
    // Outboxes
    /// Writes no messages with a completion.
    CommitsWithoutItsMessages,
    /// Writes the messages of a completion that is fenced.
    PublishesUnfenced,
    /// Never tells again of a message that was taken.
    TakesForEver,
    /// Tells everybody of what its committer publishes.
    LeavesNothingToItsCommitter,
    /// Keeps content as text.
    KeepsBodiesAsText,
    /// Tells at once of what is to leave later.
    LeavesAtOnce,
    /// Removes nothing that has no order.
    KeepsWhatIsPublished,
    /// Keeps no errors of messages.
    ForgetsWhyItWasNotPublished,
    /// Takes back a message of the outbox for who has lost it.
    PutsBackWhatOthersHave,
    /// Counts as an attempt that the broker was away.
    CountsWhatWasNotTried,
    /// Tells again of what was given up.
    NeverGivesUp,
    /// Tells of all of a lane at once.
    IgnoresLanes,
    /// Passes over one of a lane that was given up.
    PassesTheDead,
    /// Tells of a message again and again.
    TellsEverybody,
    /// Cancels messages of other keys, too.
    CancelsWhatBeginsSo,
    /// Tells of any number of bytes at once.
    TakesAnyLength,
    /// Takes what waits for what nobody takes.
    TakesWaitingForUntaken,
    /// Tells of lanes that do not stand.
    SuspectsEveryLane,
    /// Lists all messages on the first page.
    ListsMoreThanAPage,
    // Streams
    /// Takes a stream that nobody has read for one whose first message is done.
    BeginsWithAMark,
    /// Lets every worker read a stream.
    EverybodyReads,
    /// Answers the second claim of a reader like anybody else's.
    HoldsOffItsReader,
    /// Keeps a stream for a reader that never comes back.
    NeverTakesStreamsOver,
    /// Moves the mark whatever the token.
    StreamsUnfenced,
    /// Gives the next reader the token of the one before.
    StreamTokensStay,
    /// Lets the lease of a reader end though it was extended.
    HeartbeatsDoNothing,
    /// Forgets the mark when a stream is given back.
    LosesTheLastMark,
    /// Believes a write that comes late.
    StreamMarksMoveBack,
    /// Refuses to move the mark once the lease has run out, though nobody took over.
    EndsWithTheLease,
    /// Lets a stream that was given back wait for the end of its lease.
    KeepsStreamsGivenBack,
    /// A heartbeat that comes late brings a stream back that was given back.
    HeartbeatsBringStreamsBack,
    /// Does not let a person move a mark back.
    SetsMarksForwardOnly,
    /// Leaves the reader of a stream whose mark a person sets.
    SetsMarksUnderItsReader,
    /// Keeps one mark for all handlers and streams.
    OneMarkForAll,
    /// Forgets a mark as it forgets keys.
    ForgetsMarks,
    /// Keeps the lower half of an offset.
    CutsOffsets,
    /// Leaves streams out of the list that nobody reads.
    ListsWhatIsRead,
    /// Lists streams without their marks.
    ListsNoMarks,
    /// Lists streams from the last to the first.
    ListsStreamsBackwards,
    /// Looks first who reads a stream, and writes later.
    ClaimsStreamsInTwoSteps,
    // Streams, in transactions
    /// Commits what a handler has written of a stream, and leaves the mark.
    LeavesMarks,
    /// Moves a mark with a transaction whatever the token.
    MovesMarksUnfenced,
    /// Moves a mark that was moved before.
    MovesMarksAgain,
    /// Commits what was written, also if the mark cannot be moved.
    CommitsThoughFenced,
    /// Moves the mark first, and looks later whether the completion is fenced.
    MovesMarksFirst,
    /// Moves a mark from where it is only, and to the next offset only.
    MovesMarksStepByStep,
    /// Takes a commit for a heartbeat.
    MovesExtendLeases,
    /// Moves no mark once the lease has run out, though nobody took over.
    MovesEndWithTheLease,
    /// Completes several keys, and passes over a mark among them.
    PassesOverMarks,
}
