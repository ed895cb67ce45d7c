use std::process::Command;

use idem_servers::install;

#[test]
fn faketime_shows_another_clock_to_what_it_starts() {
    let faketime = install::installed_faketime().expect("it can be installed");
    let output = Command::new(faketime)
        .args(["2001-02-03 04:05:06", "date", "+%F"])
        .output()
        .expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2001-02-03\n");
}
