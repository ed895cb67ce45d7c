//! What a restart of the server forgets.

use super::Facts;
use crate::store::Finding;

pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    if facts.is("aof_enabled", "1") {
        appending(facts.setting("appendfsync"))
    } else {
        Some(not_appending(facts.setting("save")))
    }
}

fn appending(appendfsync: Option<&str>) -> Option<Finding> {
    match appendfsync {
        Some("always") => None,
        Some("everysec") => Some(Finding::note(
            "redis-persistence",
            "`appendfsync` is `everysec`: a power loss forgets the last one or two seconds, and \
             their messages may run again; set it to `always` to forget nothing",
        )),
        Some(other) => Some(Finding::warning(
            "redis-persistence",
            format!(
                "`appendfsync` is `{other}`: a power loss forgets what the operating system has not \
             written yet, and those messages may run again; set it to `everysec` or `always`"
            ),
        )),
        None => Some(Finding::note(
            "redis-persistence",
            "redis writes an append-only file, but `CONFIG` is forbidden here, so it is not known \
             how many seconds a power loss forgets; ask who runs it for `appendfsync`",
        )),
    }
}

fn not_appending(save: Option<&str>) -> Finding {
    let text = match save {
        Some("") => {
            "redis saves nothing to disk: a restart forgets all keys, and messages that come again \
             run again; set `appendonly yes`"
        }
        Some(_) => {
            "redis only saves snapshots: a crash forgets all keys since the last one, and messages \
             that come again run again; set `appendonly yes`"
        }
        None => {
            "redis writes no append-only file, and `CONFIG` is forbidden here, so it is not known \
             whether it saves snapshots: a crash forgets all keys since the last one, or all there \
             are, and messages that come again run again; ask who runs it for `appendonly yes`"
        }
    };
    Finding::warning("redis-persistence", text)
}
