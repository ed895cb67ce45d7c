//! Temporary files of tests are kept in memory where there is room for them: a server that begins without data writes
//! hundreds of files, which takes longer on a disk than most tests do.

use std::{env, path::Path, process::Command, sync::OnceLock};

use nix::sys::statvfs::{FsFlags, statvfs};

/// A file system in memory, on Linux.
const IN_MEMORY: &str = "/dev/shm";
/// Several times what all tests at a time have written there.
const ROOM: u64 = 4 << 30;
const VARIABLE: &str = "TMPDIR";

/// From now on for this process: of its servers, too.
pub(crate) fn keep_temporary_files() {
    if let Some(folder) = folder() {
        // The first call decides, and all calls say the same.
        let _ = tempfile::env::override_temp_dir(Path::new(folder));
    }
}

/// The same for another process.
pub(crate) fn keep_temporary_files_of(command: &mut Command) {
    if let Some(folder) = folder() {
        command.env(VARIABLE, folder);
    }
}

/// `None` if somebody has said where they go, if there is no room in memory, or if programs may not be run from there,
/// as the documentation's examples are.
fn folder() -> Option<&'static str> {
    static FOLDER: OnceLock<bool> = OnceLock::new();
    let in_memory = FOLDER.get_or_init(|| env::var_os(VARIABLE).is_none() && has_room(IN_MEMORY));
    in_memory.then_some(IN_MEMORY)
}

#[allow(
    clippy::useless_conversion,
    reason = "blocks are counted in 32 bits on other systems"
)]
fn has_room(folder: &str) -> bool {
    statvfs(folder).is_ok_and(|system| {
        let free = u64::from(system.blocks_available()) * system.fragment_size();
        free >= ROOM && !system.flags().contains(FsFlags::ST_NOEXEC)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_or_holds_nothing_is_not_taken() {
        for folder in ["/nowhere/at/all", "/proc"] {
            assert!(!has_room(folder), "{folder}");
        }
    }

    #[test]
    fn tests_and_this_process_keep_their_files_in_the_same_folder() {
        keep_temporary_files();
        let mut tests = Command::new("tests");
        keep_temporary_files_of(&mut tests);
        let told = tests.get_envs().find(|(name, _)| *name == VARIABLE);
        let told = told.and_then(|(_, folder)| Some(Path::new(folder?).to_owned()));
        assert_eq!(
            told.unwrap_or_else(env::temp_dir),
            tempfile::env::temp_dir()
        );
    }
}
