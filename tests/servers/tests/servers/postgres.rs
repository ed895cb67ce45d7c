use std::{
    fs,
    io::Write,
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
};

use idem_servers::{
    Postgres, Server,
    postgres::{self, DatabaseServer},
};

use crate::{
    eventually, psql,
    traces::{
        assert_that_nothing_is_left_of, assert_that_nothing_outlives_its_killed_owner, processes_of,
    },
};

/// A session that holds a row and waits for more to do.
struct Session(Child);

impl Session {
    fn in_a_transaction(server: &DatabaseServer) -> Self {
        server
            .query("idem", "CREATE TABLE IF NOT EXISTS held (i int)")
            .expect("a table");
        let mut psql = Command::new(psql())
            .args(["--no-psqlrc", &server.url()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("psql runs");
        let input = psql.stdin.as_mut().expect("piped");
        writeln!(input, "BEGIN; LOCK TABLE held;").expect("psql listens");
        let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'held'::regclass";
        eventually("the session holds its lock", || {
            server
                .query("idem", locks)
                .is_ok_and(|count| count == "1\n")
        });
        Self(psql)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn interlock_of(server: &Postgres) -> String {
    let pid_file =
        fs::read_to_string(server.folder().join("data/postmaster.pid")).expect("it runs");
    let line = pid_file.lines().nth(6).expect("a seventh line");
    line.split_ascii_whitespace()
        .nth(1)
        .expect("an id")
        .to_owned()
}

fn interlock_is_there(id: &str) -> bool {
    let segments = fs::read_to_string("/proc/sysvipc/shm").expect("Linux");
    segments
        .lines()
        .any(|segment| segment.split_ascii_whitespace().nth(1) == Some(id))
}

#[test]
fn a_killed_postgres_recovers_on_the_same_port_with_its_data() {
    let postgres = Postgres::start().expect("a server");
    let url = postgres.create_database("kept back").expect("a database");
    assert!(url.ends_with("/kept%20back"), "{url}");
    postgres
        .query("kept back", "CREATE TABLE t AS SELECT 42 AS answer")
        .expect("a table");
    assert!(postgres.create_database("kept back").is_err());
    let _session = Session::in_a_transaction(&postgres);

    postgres.kill().expect("it dies");
    assert!(!postgres.is_ready());
    assert!(TcpStream::connect(("127.0.0.1", postgres.port())).is_err());
    assert!(postgres.query("idem", "SELECT 1").is_err());
    postgres.kill().expect("it is dead already");

    postgres.restart().expect("it recovers");
    assert_eq!(postgres.url_of("kept back"), url);
    let answer = postgres.query("kept back", "SELECT answer, 'x' FROM t");
    assert_eq!(answer.expect("rows"), "42|x\n");
    let log = fs::read_to_string(postgres.log()).expect("a log");
    assert!(log.contains("was not properly shut down"), "{log}");

    postgres.drop_database("kept back").expect("it is there");
    assert!(postgres.query("kept back", "SELECT 1").is_err());
}

#[test]
fn a_stopped_postgres_ends_its_sessions_and_needs_no_recovery() {
    let postgres = Postgres::start().expect("a server");
    let _session = Session::in_a_transaction(&postgres);
    postgres.freeze().expect("it freezes");
    postgres.stop().expect("it stops, although it was frozen");
    assert!(postgres.freeze().is_err(), "there is nothing to freeze");
    postgres.restart().expect("it comes back");
    let log = fs::read_to_string(postgres.log()).expect("a log");
    assert!(!log.contains("was not properly shut down"), "{log}");
    let folder = postgres.folder().to_owned();
    drop(postgres);
    assert_that_nothing_is_left_of(&folder);
}

#[test]
fn a_frozen_postgres_is_silent_in_every_session_until_it_is_thawed() {
    let postgres = Postgres::start().expect("a server");
    let session = Session::in_a_transaction(&postgres);
    postgres.freeze().expect("it freezes");
    assert!(
        TcpStream::connect(("127.0.0.1", postgres.port())).is_ok(),
        "the port stays open"
    );
    assert!(!postgres.is_ready());
    let states = states_of_processes_in(&postgres);
    assert!(
        states.len() > 5 && states.iter().all(|state| state == "T"),
        "{states:?}"
    );

    postgres.thaw().expect("it thaws");
    eventually("it answers again", || postgres.is_ready());
    let states = states_of_processes_in(&postgres);
    assert!(!states.contains(&"T".to_owned()), "{states:?}");

    postgres.freeze().expect("it freezes");
    let folder = postgres.folder().to_owned();
    let interlock = interlock_of(&postgres);
    assert!(interlock_is_there(&interlock));
    drop(postgres);
    assert_that_nothing_is_left_of(&folder);
    assert!(!interlock_is_there(&interlock));
    drop(session);
}

/// As in `/proc/<pid>/stat`, of all that work in the data folder.
fn states_of_processes_in(postgres: &Postgres) -> Vec<String> {
    let data = postgres.folder().join("data");
    fs::read_dir("/proc")
        .expect("Linux")
        .filter_map(|entry| {
            let process = entry.ok()?.path();
            let at_work = fs::read_link(process.join("cwd")).ok()? == data;
            let stat = fs::read_to_string(process.join("stat")).ok()?;
            let (_, fields) = stat.rsplit_once(") ")?;
            at_work.then(|| fields[..1].to_owned())
        })
        .collect()
}

#[test]
fn a_callers_settings_win_and_a_wrong_one_is_quoted() {
    let postgres =
        Postgres::start_with(&[("fsync", "on"), ("max_connections", "7")]).expect("a server");
    let settings = "SELECT current_setting('fsync'), current_setting('max_connections')";
    assert_eq!(postgres.query("idem", settings).expect("a row"), "on|7\n");

    let refused = Postgres::start_with(&[("no_such_setting", "1")]).expect_err("no such setting");
    assert!(refused.to_string().contains("no_such_setting"), "{refused}");
}

#[test]
fn two_postgres_live_side_by_side_and_the_shared_one_is_a_third() {
    let [one, other] = [0, 1]
        .map(|_| thread::spawn(Postgres::start))
        .map(|start| start.join().expect("no panic").expect("a server"));
    assert_ne!(one.url(), other.url());
    let shared = postgres::shared().expect("a server");
    assert_eq!(postgres::shared().expect("the same").url(), shared.url());
    assert!(![one.url(), other.url()].contains(&shared.url()));

    let folder = one.folder().to_owned();
    drop(one);
    assert_that_nothing_is_left_of(&folder);
    assert!(other.is_ready());
}

#[test]
fn a_postgres_does_not_outlive_its_killed_owner() {
    assert_that_nothing_outlives_its_killed_owner(
        "postgres::a_postgres_does_not_outlive_its_killed_owner",
        || {
            let postgres = Postgres::start().expect("a server");
            assert!(processes_of(postgres.folder()).len() > 5);
            postgres.freeze().expect("it freezes");
            postgres
        },
    );
}
