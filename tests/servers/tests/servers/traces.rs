//! What a server leaves behind, which should be nothing.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use idem_servers::{Private, Server};

use crate::eventually;

const OWNER_VARIABLE: &str = "IDEM_TEST_OWNER";

/// The command lines of a server's processes, helpers included. They have the folder as their home;
/// PostgreSQL's overwrite what they were told of it, but work in there.
pub(crate) fn processes_of(folder: &Path) -> Vec<String> {
    let home = format!("HOME={}\0", folder.display());
    fs::read_dir("/proc")
        .expect("Linux")
        .filter_map(|entry| {
            let process = entry.ok()?.path();
            let environment = fs::read(process.join("environ")).ok()?;
            let at_home = String::from_utf8_lossy(&environment).contains(&home);
            let at_work = fs::read_link(process.join("cwd")).ok()?.starts_with(folder);
            let command = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
            (at_home || at_work).then_some(command)
        })
        .collect()
}

pub(crate) fn assert_that_nothing_is_left_of(folder: &Path) {
    eventually("the folder is removed", || !folder.exists());
    eventually("its processes are gone", || processes_of(folder).is_empty());
}

/// Runs the calling test, which is `name`, once more in a process of its own that starts a server,
/// and kills that process with SIGKILL.
pub(crate) fn assert_that_nothing_outlives_its_killed_owner<S: Server>(
    name: &str,
    start: impl FnOnce() -> Private<S>,
) {
    if env::var_os(OWNER_VARIABLE).is_some() {
        let server = start();
        println!("\nfolder={}", server.folder().display());
        thread::sleep(Duration::from_mins(10));
    }
    let mut owner = Command::new(env::current_exe().expect("this test"))
        .args(["--exact", "--nocapture", name])
        .env(OWNER_VARIABLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test runs itself");
    let output = BufReader::new(owner.stdout.take().expect("piped"));
    let folder: PathBuf = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("folder=").map(PathBuf::from))
        .expect("the owner starts a server");
    assert!(!processes_of(&folder).is_empty());

    owner.kill().expect("SIGKILL");
    owner.wait().expect("it is dead");
    assert_that_nothing_is_left_of(&folder);
}
