//! What `docs/http.md` and `docs/grpc.md` say is held by the tests that they name.

const HTTP: &str = include_str!("../../../docs/http.md");
const GRPC: &str = include_str!("../../../docs/grpc.md");

const TESTS_OF_HTTP: [&str; 6] = [
    include_str!("atomic.rs"),
    include_str!("bodies.rs"),
    include_str!("lifecycle.rs"),
    include_str!("outages.rs"),
    include_str!("protocol.rs"),
    include_str!("responses.rs"),
];

const TESTS_OF_GRPC: [&str; 6] = [
    include_str!("grpc/atomic.rs"),
    include_str!("grpc/calls.rs"),
    include_str!("grpc/lifecycle.rs"),
    include_str!("grpc/outages.rs"),
    include_str!("grpc/responses.rs"),
    include_str!("../../src/grpc/status.rs"),
];

#[test]
fn every_row_of_the_tables_names_its_tests() {
    for (page, table, tests) in [
        (HTTP, "| the request |", TESTS_OF_HTTP),
        (GRPC, "| the call |", TESTS_OF_GRPC),
    ] {
        let rows = page.lines().skip_while(|line| !line.starts_with(table));
        let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
        let mut count = 0;
        for row in rows {
            let held_by = row.split('|').nth(5).expect("the row has five columns");
            let named: Vec<_> = held_by.split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty(), "no test holds: {row}");
            for name in named {
                let function = format!("fn {name}");
                let is_there = tests.iter().any(|tests| {
                    let mut found = tests.match_indices(&function);
                    found.any(|(at, _)| tests[at + function.len()..].starts_with(['(', '<']))
                });
                assert!(is_there, "there is no test {name}: {row}");
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
    }
}
