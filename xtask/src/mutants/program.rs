//! The test programs, and their copies with a changed file in them.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader},
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::Deserialize;

use crate::{
    Error, Result,
    cargo::{Workspace, cargo},
    checks::Servers,
};

/// Whoever needs longer hangs, and is noticed by that.
const LONGEST: Duration = Duration::from_mins(6);

/// What the tests made of a changed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// All passed.
    Passed,
    /// One failed.
    Failed,
    /// They were not at an end after [`LONGEST`].
    Hung,
}

/// Copies of the conformance suite, and of the crate's own tests.
pub(super) struct Programs {
    package: PathBuf,
    conformance: PathBuf,
    own: PathBuf,
    servers: Servers,
}

/// Where a file stands in each of them, in bytes from the beginning.
pub(super) struct Places {
    text: String,
    conformance: Vec<u64>,
    own: Vec<u64>,
}

/// What cargo tells of what it has built.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl Programs {
    pub(super) fn build(workspace: &Workspace, servers: Servers) -> Result<Self> {
        let mut build = cargo(&workspace.root);
        build.args(["test", "--package", "idem-core", "--all-features"]);
        build.args(["--lib", "--test", "conformance", "--no-run"]);
        build.args(["--message-format", "json-render-diagnostics"]);
        let doing = "build the tests of idem-core";
        let output = build
            .stderr(Stdio::inherit())
            .output()
            .map_err(Error::io(doing))?;
        if !output.status.success() {
            return Err(Error::Missing(format!("cannot {doing}: see above")));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let find = |name: &str| {
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Built>(line).ok());
            let mut programs =
                lines.filter(|it| it.target.as_ref().is_some_and(|it| it.name == name));
            let program = programs.find_map(|it| it.executable);
            program.ok_or_else(|| Error::Missing(format!("cargo has built no tests of `{name}`")))
        };
        let folder = workspace.target.join("mutants");
        fs::create_dir_all(&folder).map_err(Error::io(format!("create {}", folder.display())))?;
        let copy = |name: &str| -> Result<PathBuf> {
            let copy = folder.join(name);
            // Not overwritten: one of an earlier run may still be at work.
            let _ = fs::remove_file(&copy);
            fs::copy(find(name)?, &copy).map_err(Error::io(format!("write {}", copy.display())))?;
            Ok(copy)
        };
        Ok(Self {
            package: workspace.root.join("idem-core"),
            conformance: copy("conformance")?,
            own: copy("idem_core")?,
            servers,
        })
    }

    /// Where the programs have this file.
    pub(super) fn find(&self, text: &str) -> Result<Places> {
        let of = |program: &Path| -> Result<Vec<u64>> {
            let bytes = fs::read(program).map_err(Error::io("read a test program"))?;
            let first = text.as_bytes().first().copied().unwrap_or_default();
            let begins =
                |at: &usize| bytes[*at] == first && bytes[*at..].starts_with(text.as_bytes());
            Ok((0..bytes.len())
                .filter(begins)
                .map(|at| at as u64)
                .collect())
        };
        Ok(Places {
            text: text.to_owned(),
            conformance: of(&self.conformance)?,
            own: of(&self.own)?,
        })
    }

    /// What the tests of this store make of the file when it is changed.
    pub(super) fn run(&self, store: &str, places: &Places, changed: &str) -> Result<Ran> {
        let module = format!("{store}::");
        let kinds = ["atomic", "grouped", "transaction"];
        let mut filters = vec![module.clone()];
        filters.extend(kinds.map(|kind| format!("{store}_{kind}::")));
        filters.extend(["--skip", "cached_", "--skip", "any_"].map(str::to_owned));
        let (text, suite) = (&places.text, &places.conformance);
        match self.run_one(&self.conformance, suite, text, changed, &filters)? {
            Ran::Passed => self.run_one(&self.own, &places.own, text, changed, &[module]),
            ended => Ok(ended),
        }
    }

    fn run_one(
        &self,
        program: &Path,
        places: &[u64],
        text: &str,
        changed: &str,
        filters: &[String],
    ) -> Result<Ran> {
        if places.is_empty() {
            return Ok(Ran::Passed);
        }
        write(program, places, changed)?;
        let mut tests = Command::new(program);
        tests
            .args(filters)
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package);
        self.servers.hand_to(&mut tests);
        tests
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let child = tests
            .spawn()
            .map_err(Error::io("run a changed test program"))?;
        let ended = until_known(child);
        write(program, places, text)?;
        Ok(ended)
    }
}

fn write(program: &Path, places: &[u64], text: &str) -> Result<()> {
    let doing = || Error::io(format!("change {}", program.display()));
    let file = OpenOptions::new()
        .write(true)
        .open(program)
        .map_err(doing())?;
    for at in places {
        file.write_all_at(text.as_bytes(), *at).map_err(doing())?;
    }
    Ok(())
}

/// Until the first test fails, or nothing more is to be expected.
fn until_known(mut child: Child) -> Ran {
    let (tell, told) = mpsc::channel();
    let output = child.stdout.take().map(BufReader::new);
    let reading = thread::spawn(move || {
        for line in output
            .into_iter()
            .flat_map(BufReader::lines)
            .map_while(Result::ok)
        {
            if line.ends_with("... FAILED") {
                let _ = tell.send(());
                return;
            }
        }
    });
    let deadline = Instant::now() + LONGEST;
    let ended = loop {
        if told.try_recv().is_ok() {
            break Ran::Failed;
        }
        if Instant::now() > deadline {
            break Ran::Hung;
        }
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break Ran::Passed,
            Ok(Some(_)) | Err(_) => break Ran::Failed,
            Ok(None) => thread::sleep(Duration::from_millis(20)),
        }
    };
    if ended != Ran::Passed {
        let group = Pid::from_raw(child.id().cast_signed());
        let _ = killpg(group, Signal::SIGKILL);
        let _ = child.wait();
    }
    let _ = reading.join();
    ended
}
