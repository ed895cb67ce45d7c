use std::process::{Command, Stdio};

use idem_servers::{PgBouncer, Postgres, Server, install};

use crate::{psql, traces::assert_that_nothing_is_left_of};

fn query(url: &str, statements: &[&str]) -> String {
    let mut psql = Command::new(psql());
    psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", url]);
    for statement in statements {
        psql.args(["--command", statement]);
    }
    let output = psql.stderr(Stdio::inherit()).output().expect("psql runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_pooler_leads_to_its_postgres_and_pools_by_transaction_unless_told_otherwise() {
    install::installed_pgbouncer().expect("a pooler can be installed");
    let postgres = Postgres::start().expect("a server");
    postgres.create_database("another").expect("a database");
    let pooler = PgBouncer::start(&postgres, &[]).expect("a pooler");
    let name = "SELECT current_user, current_database()";
    assert_eq!(query(&pooler.url(), &[name]), "idem|idem\n");
    assert_eq!(query(&pooler.url_of("another"), &[name]), "idem|another\n");
    assert_eq!(pool_mode(&pooler), "transaction");

    let other = PgBouncer::start(&postgres, &[("pool_mode", "session")]).expect("a pooler");
    assert_eq!(pool_mode(&other), "session");

    postgres.kill().expect("it dies");
    assert!(!pooler.is_ready(), "there is nothing behind it");
    postgres.restart().expect("it comes back");
    pooler.restart().expect("so does the pooler");
    assert_eq!(query(&pooler.url(), &[name]), "idem|idem\n");

    let folder = pooler.folder().to_owned();
    drop(pooler);
    assert_that_nothing_is_left_of(&folder);
}

fn pool_mode(pooler: &PgBouncer) -> String {
    let databases = query(&pooler.url_of("pgbouncer"), &["SHOW CONFIG"]);
    let value = databases
        .lines()
        .find_map(|line| line.strip_prefix("pool_mode|"));
    let value = value.unwrap_or_default().split('|').next();
    value.unwrap_or_default().to_owned()
}
