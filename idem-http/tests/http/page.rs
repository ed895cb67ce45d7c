//! What `docs/http.md` says is held by the tests that it names.

const PAGE: &str = include_str!("../../../docs/http.md");

const TESTS: [&str; 6] = [
    include_str!("atomic.rs"),
    include_str!("bodies.rs"),
    include_str!("lifecycle.rs"),
    include_str!("outages.rs"),
    include_str!("protocol.rs"),
    include_str!("responses.rs"),
];

#[test]
fn every_row_of_the_table_names_its_tests() {
    let rows = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("| the request |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let held_by = row.split('|').nth(5).expect("the row has five columns");
        let named: Vec<_> = held_by.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test holds: {row}");
        for name in named {
            let function = format!("fn {name}");
            let is_there = TESTS.iter().any(|tests| {
                let mut found = tests.match_indices(&function);
                found.any(|(at, _)| tests[at + function.len()..].starts_with(['(', '<']))
            });
            assert!(is_there, "there is no test {name}: {row}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}
