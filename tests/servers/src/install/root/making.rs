//! Fills a folder once, for everybody, and gives it its name when it is complete.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::{Error, Result};

const MAKE: &str = include_str!("make.sh");

/// Makes the folder `place` by a shell script, which is told a folder to fill and then `arguments`.
/// `command` runs what is appended to it, perhaps as somebody else. Whoever comes second waits.
pub(super) fn make(
    mut command: Command,
    place: &Path,
    script: &str,
    arguments: &[&str],
) -> Result<()> {
    let status = command
        .args(["sh", "-c", MAKE, "make"])
        .arg(place)
        .arg(script)
        .args(arguments)
        .stdin(Stdio::null())
        // What is printed on standard output belongs to the task.
        .stdout(std::io::stderr())
        .status()
        .map_err(Error::io("run `sh`"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: format!("make {}", place.display()),
        status: status.to_string(),
        output: "; what it said is above".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    /// Writes down that it ran, and takes its time.
    const FILL: &str = r#"mkdir -p "$1/etc"; sleep 0.2; echo made >>"$2"; echo whole >"$1/file""#;

    fn run(place: &Path, script: &str) -> Result<()> {
        let runs = place.with_extension("runs").display().to_string();
        make(Command::new("env"), place, script, &[&runs])
    }

    fn runs(place: &Path) -> usize {
        let runs = fs::read_to_string(place.with_extension("runs"));
        runs.map_or(0, |runs| runs.lines().count())
    }

    #[test]
    fn whoever_comes_second_waits_and_finds_it_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("root");
        thread::scope(|scope| {
            let makers = [0, 1].map(|_| scope.spawn(|| run(&place, FILL)));
            for maker in makers {
                maker.join().expect("no panic").expect("it is made");
                assert!(place.join("file").exists());
            }
        });
        assert_eq!(runs(&place), 1);
        let hosts = fs::read_to_string(place.join("etc/hosts")).expect("it is there");
        assert!(hosts.contains("127.0.0.1 localhost"), "{hosts}");
    }

    #[test]
    fn what_failed_half_way_is_not_there_and_is_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("root");
        let failure = run(&place, &format!("{FILL}; touch \"$1/half\"; false"));
        failure.expect_err("the script fails");
        assert!(!place.exists());

        run(&place, FILL).expect("it is made");
        assert!(!place.join("half").exists());
        assert_eq!(runs(&place), 2);
    }
}
