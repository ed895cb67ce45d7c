//! The course of a group: begin, one member after the other, commit.

use std::{sync::Arc, time::Duration};

use sqlx::{Connection as _, Row as _};
use tokio::{sync::oneshot, time::Instant};

use super::{
    ending::{self, Lost},
    queue::{Given, Queue},
    seat::{Back, Member, Seat},
    statement::{self, NEXT, SECOND, UNDO},
};
use crate::{
    GroupEnd,
    postgres::{
        PostgresStore,
        atomic::{self, Connection, OpenTransaction},
        fault::Fault,
    },
};

/// A group that has been open for so long takes nobody else: its locks are held until it commits.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// One group.
pub(super) struct Course<'a> {
    store: &'a PostgresStore,
    queue: &'a Queue,
    /// Those who can still be given a seat.
    seats: usize,
    opened: Instant,
    /// Those whose savepoint was released.
    members: Vec<Member>,
    /// What the server calls the transaction, once there is a second member.
    number: Option<String>,
}

/// An open transaction, and what the last one who sat there has done.
struct Room {
    open: OpenTransaction,
    last: Last,
}

enum Last {
    Nothing,
    Succeeded(Member),
    Failed,
}

impl Last {
    fn succeeded(self) -> Option<Member> {
        match self {
            Self::Succeeded(member) => Some(member),
            Self::Nothing | Self::Failed => None,
        }
    }
}

impl<'a> Course<'a> {
    /// Runs one group after the other, as long as somebody waits.
    pub(super) async fn run_all(store: PostgresStore, queue: Arc<Queue>, size: usize) {
        loop {
            match OpenTransaction::of_group(&store.lending).await {
                Ok(open) => Course::new(&store, &queue, size).run(open).await,
                Err(fault) => queue.disappoint(&fault),
            }
            if !queue.goes_on() {
                return;
            }
        }
    }

    fn new(store: &'a PostgresStore, queue: &'a Queue, size: usize) -> Self {
        Self {
            store,
            queue,
            seats: size.max(1),
            opened: Instant::now(),
            members: Vec::new(),
            number: None,
        }
    }

    async fn run(mut self, open: OpenTransaction) {
        let mut room = Room {
            open,
            last: Last::Nothing,
        };
        while let Some(waiting) = self.next() {
            if let Err(lost) = self.tidy(&mut room).await {
                self.queue.put_back(waiting);
                return self.lose(room, lost).await;
            }
            match self.seat(room.open, waiting).await {
                Some(taken) => room = taken,
                None => return self.end(|| GroupEnd::RolledBack),
            }
        }
        self.close(room).await;
    }

    fn next(&self) -> Option<oneshot::Sender<Given>> {
        let has_room = self.seats > 0 && self.opened.elapsed() < LONG_ENOUGH;
        has_room.then(|| self.queue.next()).flatten()
    }

    /// Lends the transaction, and waits until it is back. It never comes back from one whose thread
    /// was taken away.
    async fn seat(
        &mut self,
        open: OpenTransaction,
        waiting: oneshot::Sender<Given>,
    ) -> Option<Room> {
        let (seat, back) = Seat::new(open);
        if let Err(Ok(refused)) = waiting.send(Ok(seat)) {
            let open = refused.clear()?;
            let last = Last::Nothing;
            return Some(Room { open, last });
        }
        self.seats -= 1;
        Some(match back.await.ok()? {
            Back::Left(open, member) => Room {
                open,
                last: Last::Succeeded(member),
            },
            Back::Dropped(open) => Room {
                open,
                last: Last::Failed,
            },
        })
    }

    /// Keeps or undoes what the last one has written; then there is a savepoint for the next.
    async fn tidy(&mut self, room: &mut Room) -> Result<(), Lost> {
        match std::mem::replace(&mut room.last, Last::Nothing) {
            Last::Nothing => Ok(()),
            Last::Failed => self.undo(&mut room.open).await,
            Last::Succeeded(member) => match self.keep(&mut room.open).await {
                Ok(()) => {
                    self.members.push(member);
                    Ok(())
                }
                Err(error) => {
                    member.tell(GroupEnd::RolledBack);
                    if !matches!(&error, Some(error) if ending::is_aborted(error)) {
                        return Err(error.map_or(Lost::RolledBack, |it| ending::between(&it)));
                    }
                    self.undo(&mut room.open).await
                }
            },
        }
    }

    /// An error is that of the server or the link, or nothing at all within the response timeout.
    async fn keep(&mut self, open: &mut OpenTransaction) -> Result<(), Option<sqlx::Error>> {
        let is_first = self.members.is_empty();
        let text = if is_first { SECOND } else { NEXT };
        let kept = async { Ok(sqlx::raw_sql(text).fetch_all(open.connection()).await) };
        let rows = self.store.address.within_patience(kept).await;
        let rows = rows.map_err(|_| None)?.map_err(Some)?;
        if let Some(row) = rows.first() {
            self.number = Some(row.try_get(0).map_err(Some)?);
        }
        Ok(())
    }

    /// What the driver has prepared goes, too: it may be what the attempt failed of.
    async fn undo(&self, open: &mut OpenTransaction) -> Result<(), Lost> {
        let connection = open.connection();
        let undone = async {
            sqlx::raw_sql(UNDO).execute(&mut *connection).await?;
            connection.clear_cached_statements().await
        };
        match self.store.address.within_patience(undone).await {
            Ok(()) => Ok(()),
            Err(Fault::Said(error)) => Err(ending::between(&error)),
            Err(_) => Err(Lost::RolledBack),
        }
    }

    /// Commits, if there is anything to commit.
    async fn close(mut self, mut room: Room) {
        loop {
            if let Last::Failed = room.last
                && !self.members.is_empty()
                && let Err(lost) = self.tidy(&mut room).await
            {
                return self.lose(room, lost).await;
            }
            let last = match &room.last {
                Last::Succeeded(member) => Some(member),
                Last::Nothing | Last::Failed => None,
            };
            if self.members.is_empty() && last.is_none() {
                return self.store.roll_back_open(room.open).await;
            }
            let mut members: Vec<_> = self.members.iter().chain(last).collect();
            members.sort_by(|one, other| one.lease.key.as_str().cmp(other.lease.key.as_str()));
            let skew = self.store.clock.skew();
            let text = statement::commit(&self.store.sql.commit_group, &members, skew);
            let connection = room.open.connection();
            let committed = async { Ok(atomic::commit(connection, text).await) };
            match self.store.address.within_patience(committed).await {
                Ok((Ok(()), cleaned)) => {
                    if cleaned == Connection::Clean {
                        room.open.give_back();
                    }
                    self.members.extend(room.last.succeeded());
                    return self.end(|| GroupEnd::Committed);
                }
                Ok((Err(error), _)) if ending::is_aborted(&error) => {
                    let last = std::mem::replace(&mut room.last, Last::Failed);
                    match last.succeeded() {
                        Some(culprit) => culprit.tell(GroupEnd::RolledBack),
                        None => return self.lose(room, Lost::RolledBack).await,
                    }
                }
                Ok((Err(error), _)) => {
                    let lost = ending::of_commit(error);
                    return self.lose(room, lost).await;
                }
                Err(fault) => return self.lose(room, Lost::Unknown(fault)).await,
            }
        }
    }

    /// The transaction has ended in another way than by its commit.
    async fn lose(mut self, room: Room, lost: Lost) {
        match (lost, room.last) {
            (Lost::Unknown(fault), last) => {
                room.open.give_up();
                self.members.extend(last.succeeded());
                self.end(|| GroupEnd::Unknown(fault.unavailable()));
            }
            (Lost::Ended, last) => {
                // Its own writes are as they would be without a group, and its completion as well.
                if let Some(culprit) = last.succeeded() {
                    culprit.tell(GroupEnd::RolledBack);
                }
                self.store.roll_back_open(room.open).await;
                self.find_out().await;
            }
            (Lost::RolledBack, last) => {
                room.open.give_up();
                self.members.extend(last.succeeded());
                self.end(|| GroupEnd::RolledBack);
            }
        }
    }

    /// A handler has committed what others have written, or rolled it back.
    async fn find_out(self) {
        if self.members.is_empty() {
            return;
        }
        let number = self.number.clone();
        let statement =
            || sqlx::query("SELECT pg_xact_status($1::text::xid8)").bind(number.clone());
        let rows = self.store.heartbeats.lock().await.fetch(statement).await;
        let status = rows.and_then(|rows| match rows.first() {
            Some(row) => Ok(row.try_get::<Option<String>, _>(0)?),
            None => Ok(None),
        });
        match status.as_ref().map(Option::as_deref) {
            Ok(Some("committed")) => self.end(|| GroupEnd::WithoutCompletion),
            Ok(Some("aborted")) => self.end(|| GroupEnd::RolledBack),
            Ok(_) => self.end(|| GroupEnd::Unknown(unfinished().unavailable())),
            Err(fault) => self.end(|| GroupEnd::Unknown(fault.unavailable())),
        }
    }

    fn end(self, end: impl Fn() -> GroupEnd) {
        for member in self.members {
            member.tell(end());
        }
    }
}

fn unfinished() -> Fault {
    Fault::from(sqlx::Error::Protocol(
        "a handler has ended the transaction of its group by itself".to_owned(),
    ))
}
