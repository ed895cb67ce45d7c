use std::thread;

use idem_servers::{Postgres, Server, postgres::DatabaseServer};

use crate::{eventually, traces::assert_that_nothing_is_left_of};

fn write(server: &DatabaseServer, id: u32) {
    let insert = format!("INSERT INTO written VALUES ({id})");
    server.query("idem", &insert).expect("it is written");
}

fn written(server: &DatabaseServer) -> String {
    let ids = "SELECT string_agg(id::text, ',' ORDER BY id) FROM written";
    let ids = server.query("idem", ids).expect("rows");
    ids.trim_end().to_owned()
}

fn pair() -> (Postgres, Postgres) {
    let primary = Postgres::start().expect("a server");
    primary
        .query("idem", "CREATE TABLE written (id int)")
        .expect("a table");
    write(&primary, 1);
    let standby = Postgres::standby_of(&primary).expect("a standby");
    (primary, standby)
}

#[test]
fn a_promoted_standby_lacks_what_it_had_not_received_and_takes_writes() {
    let (primary, standby) = pair();
    assert_eq!(written(&standby), "1");
    let refused = standby.query("idem", "INSERT INTO written VALUES (0)");
    assert!(refused.is_err(), "it is a standby");
    write(&primary, 2);
    primary.wait_until_received().expect("it is received");
    standby.stop_receiving().expect("it stops");
    write(&primary, 3);

    primary.kill().expect("it dies");
    standby.promote().expect("it is promoted");
    assert_eq!(written(&standby), "1,2");
    write(&standby, 4);

    // It can have a standby itself, and outlive it.
    let next = Postgres::standby_of(&standby).expect("a standby of the promoted one");
    assert_eq!(written(&next), "1,2,4");
    let folder = next.folder().to_owned();
    drop(next);
    assert_that_nothing_is_left_of(&folder);
}

#[test]
fn a_standby_that_had_stopped_receives_what_it_missed() {
    let (primary, standby) = pair();
    standby.stop_receiving().expect("it stops");
    write(&primary, 2);
    standby.receive_from(&primary).expect("it receives");
    eventually("it has what it missed", || written(&standby) == "1,2");
}

#[test]
fn a_commit_that_waits_for_the_standby_is_not_answered_before_that_has_it() {
    let (primary, standby) = pair();
    primary
        .wait_for_standby_at_commit()
        .expect("the standby confirms");
    write(&primary, 2);
    standby.stop_receiving().expect("it stops");
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(&primary, 3));
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        eventually("the commit waits for the standby", || {
            primary.query("idem", waits).expect("a row") == "1\n"
        });
        assert!(!writing.is_finished());
        assert_eq!(written(&primary), "1,2", "others do not see it either");
        standby.receive_from(&primary).expect("it receives");
        writing.join().expect("it is answered");
    });
    // Nothing that was answered is missing, although nobody has waited for the standby since.
    primary.kill().expect("it dies");
    standby.promote().expect("it is promoted");
    assert_eq!(written(&standby), "1,2,3");
}
