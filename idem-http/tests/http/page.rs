//! What the pages on HTTP, on gRPC and on clients say is held by the tests that they name.

const HTTP: &str = include_str!("../../../docs/http.md");
const GRPC: &str = include_str!("../../../docs/grpc.md");
const CLIENTS: &str = include_str!("../../../docs/http-clients.md");

const TESTS_OF_HTTP: [&str; 7] = [
    include_str!("atomic.rs"),
    include_str!("bodies.rs"),
    include_str!("claims.rs"),
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

const TESTS_OF_CLIENTS: [&str; 2] = [
    include_str!("sending.rs"),
    include_str!("../../src/client/retries.rs"),
];

const CASES: &str = include_str!("../../../bench/peers/src/cases.rs");

#[test]
fn every_row_of_the_tables_names_its_tests() {
    for (page, table, tests, least) in [
        (HTTP, "| the request |", &TESTS_OF_HTTP[..], 20),
        (GRPC, "| the call |", &TESTS_OF_GRPC, 20),
        (CLIENTS, "| the answer |", &TESTS_OF_CLIENTS, 6),
    ] {
        let mut count = 0;
        for row in rows(page, table) {
            // The last column; behind it stands the row's end.
            let held_by = row.split('|').nth_back(1).expect("the row has columns");
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
        assert!(count > least, "{count}");
    }
}

/// `bench-peers` prints the table of other crates.
#[test]
fn the_cases_that_other_crates_are_sent_are_those_of_the_page() {
    let titles = CASES.split("    case(\n").skip(1).map(|case| {
        let quoted = case.split('"').nth(1);
        quoted.expect("a case has a title")
    });
    let told = rows(HTTP, "| | `idem-http` |").map(|row| {
        let first = row.split('|').nth(1);
        first.expect("the row has columns").trim()
    });
    assert_eq!(titles.collect::<Vec<_>>(), told.collect::<Vec<_>>());
}

/// The rows of the table with this heading.
fn rows<'a>(page: &'a str, heading: &'a str) -> impl Iterator<Item = &'a str> {
    let table = page
        .lines()
        .skip_while(move |line| !line.starts_with(heading));
    table.skip(2).take_while(|line| line.starts_with('|'))
}
