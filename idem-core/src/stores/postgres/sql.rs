//! The statements, with the names of the schema and the table put in.

use std::time::Duration;

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use super::{names::Names, pooler::ServerProcess, settings, template::Template};

pub(super) struct Sql {
    pub(super) claim: SqlStr,
    /// Acquires new keys only.
    pub(super) claim_new: SqlStr,
    pub(super) write: SqlStr,
    pub(super) purge: SqlStr,
    pub(super) purge_audit: SqlStr,
    pub(super) unpurged: SqlStr,
    pub(super) extend_open: SqlStr,
    /// What rolls a handler's transaction back. With a placeholder for the nonce.
    pub(super) roll_back: Template,
    /// Writes a completion and commits. With placeholders for the completion.
    pub(super) commit: Template,
    /// Moves the mark of a stream with a completion. With placeholders for the mark.
    pub(super) moved: Template,
    /// Moves the mark of a stream alone. With placeholders for the mark.
    pub(super) move_mark: Template,
    /// Writes what was published. With placeholders for the messages.
    pub(super) send: Template,
    /// Writes the completions of a group and commits. With placeholders for them.
    pub(super) commit_group: Template,
    /// How long a commit waits for an order of the outbox that another transaction holds, for each order anew; for
    /// `lock_timeout`. It is half of the time in which the commit has to be answered. A commit that is not answered in
    /// that time counts as silent, and leaves its transaction on the server.
    pub(super) order_wait: String,
    /// What others see of a group that a handler has committed by itself. With a placeholder for its mark.
    pub(super) group_mark: Template,
    pub(super) group_unmark: Template,
    /// Waits until a group is over.
    pub(super) settle: SqlStr,
    /// Tells what became of a group.
    pub(super) group_end: SqlStr,
    /// Commits an entity. With placeholders for the entity, and for the end of one attempt.
    pub(super) commit_entity: Template,
    /// Looks whether an entity is there; if so, no record of an attempt is left. With a placeholder for it.
    pub(super) look_up: SqlStr,
    /// Ends an attempt at an entity in a transaction that nobody has begun.
    pub(super) recorded: SqlStr,
}

impl Sql {
    /// A statement for a batch (`patient`) waits for a locked row for a tenth of the response time-out. Then the batch
    /// is divided, until only the row's own call is left.
    pub(super) fn new(names: &Names, response_timeout: Duration, process: ServerProcess) -> Self {
        let millis = |wait: Duration| {
            let most = i32::MAX.unsigned_abs().into();
            wait.as_millis().clamp(1, most).to_string()
        };
        let lock_wait = millis(response_timeout / 10);
        let patient = |file: &str| {
            let text = names.put_into(file);
            AssertSqlSafe(text.as_str().replace("{lock_timeout}", &lock_wait)).into_sql_str()
        };
        let with_reset = |file: &str| names.template(&settings::reset(file, process));
        Self {
            claim: patient(include_str!("claim.sql")),
            claim_new: patient(include_str!("claim_new.sql")),
            write: patient(include_str!("write.sql")),
            purge: names.put_into(include_str!("purge.sql")),
            purge_audit: names.put_into(include_str!("operator/purge.sql")),
            unpurged: names.put_into(include_str!("unpurged.sql")),
            extend_open: names.put_into(include_str!("atomic/extend_open.sql")),
            roll_back: with_reset(concat!(
                include_str!("atomic/roll_back.sql"),
                include_str!("atomic/reset.sql")
            )),
            commit: with_reset(concat!(
                include_str!("atomic/commit.sql"),
                include_str!("atomic/reset.sql")
            )),
            moved: names.template(include_str!("atomic/moved.sql")),
            move_mark: with_reset(concat!(
                include_str!("atomic/move_mark.sql"),
                include_str!("atomic/reset.sql")
            )),
            send: names.template(include_str!("outbox/send.sql")),
            order_wait: millis(response_timeout / 2),
            commit_group: with_reset(concat!(
                include_str!("group/commit.sql"),
                include_str!("atomic/reset.sql")
            )),
            group_mark: names.template(include_str!("group/mark.sql")),
            group_unmark: names.template(include_str!("group/unmark.sql")),
            settle: names.put_into(include_str!("group/settle.sql")),
            group_end: names.put_into(include_str!("group/ended.sql")),
            commit_entity: with_reset(concat!(
                include_str!("recorded_by/commit.sql"),
                include_str!("atomic/reset.sql")
            )),
            look_up: names.put_into(include_str!("recorded_by/look_up.sql")),
            recorded: names.put_into("SELECT idem_records_recorded(NULL, NULL, NULL)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left_but_those_of_a_completion() {
        let names = Names::new(Some("shop"), "dedup").unwrap();
        let sql = Sql::new(&names, Duration::from_secs(10), ServerProcess::Own);
        for text in [
            &sql.claim,
            &sql.claim_new,
            &sql.write,
            &sql.purge,
            &sql.purge_audit,
            &sql.unpurged,
            &sql.extend_open,
            &sql.settle,
            &sql.group_end,
        ] {
            assert!(!text.as_str().contains(['{', '}']), "{}", text.as_str());
        }
        let look_up = sql.look_up.as_str().replace("{found}", "");
        assert!(!look_up.contains(['{', '}']), "{look_up}");
        let of_one = [
            "sent",
            "moved",
            "key",
            "token",
            "outcome",
            "retention",
            "skew",
            "nonce",
        ];
        assert_eq!(sql.commit.names(), of_one);
        assert_eq!(sql.roll_back.names(), ["nonce"]);
        let of_mark = ["stream", "token", "from", "to"];
        assert_eq!(sql.moved.names(), of_mark);
        assert_eq!(
            sql.move_mark.names(),
            [&["sent"], &of_mark[..], &["nonce"]].concat()
        );
        let of_group = [
            "sent",
            "keys",
            "tokens",
            "outcomes",
            "retentions",
            "skew",
            "unmark",
            "nonce",
        ];
        assert_eq!(sql.commit_group.names(), of_group);
        for of_mark in [&sql.group_mark, &sql.group_unmark] {
            assert_eq!(of_mark.names(), ["mark"]);
        }
        assert_eq!(
            sql.commit_entity.names(),
            ["writers", "key", "token", "nonce"]
        );
    }
}
