//! The mirror of Debian that this machine's package manager is set up with.

use std::process::Command;

const OFFICIAL: &str = "http://deb.debian.org/debian";

/// What apt says; the official one if it knows none, as on Ubuntu.
pub(super) fn of_this_machine() -> String {
    let fields = ["--format", "$(REPO_URI)"];
    let of_debian = ["Origin: Debian", "Label: Debian", "Created-By: Packages"];
    let output = Command::new("apt-get")
        .arg("indextargets")
        .args(fields)
        .args(of_debian)
        .output();
    let answer = output.map(|output| output.stdout).unwrap_or_default();
    chosen(&String::from_utf8_lossy(&answer))
}

/// The first that needs nothing but the network.
fn chosen(answer: &str) -> String {
    let mirror = answer.lines().find(|line| line.starts_with("http"));
    mirror.unwrap_or(OFFICIAL).trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn the_first_mirror_that_can_be_reached_by_http_is_taken() {
        let answer =
            "cdrom://disc/\nhttps://mirror.example/debian/\nhttp://other.example/debian/\n";
        assert_eq!(chosen(answer), "https://mirror.example/debian");
        assert_eq!(
            chosen("mirror+file:/etc/mirrors\n"),
            "http://deb.debian.org/debian"
        );
        assert_eq!(chosen(""), "http://deb.debian.org/debian");
    }
}
