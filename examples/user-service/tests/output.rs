//! An update in whose middle the service dies, and that is asked for again and again, is made once.

use idem_servers::example;

#[test]
fn an_update_is_made_once_and_its_reply_is_replayed_after_a_crash() {
    let printed = example::run(env!("CARGO_BIN_EXE_user-service"));
    let expected = "\
read ada
  ada@old.example, version 1
update ada
  (the service has written version 2, and dies before the commit)
  (the service was killed: another one takes its place)
  ada@new.example, version 2
update ada, says a client that has lost the reply
  ada@new.example, version 2, a replayed reply
update ada, says one that asks another process of the service
  ada@new.example, version 2, a replayed reply
read ada
  ada@new.example, version 2
read bob
  there is no bob
";
    assert_eq!(printed, expected);
}
