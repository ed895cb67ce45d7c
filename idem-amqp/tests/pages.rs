//! What the pages show compiles: each block that is fenced `rust,ignore`, because it is only a part of a program,
//! stands word for word in a module of this test.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::drop_non_drop,
    clippy::pedantic,
    reason = "they are parts of programs"
)]

use std::{fs, path::Path};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[rustfmt::skip]
#[path = "pages/batches.rs"]
mod batches;
#[rustfmt::skip]
#[path = "pages/cookbook.rs"]
mod cookbook;
#[rustfmt::skip]
#[path = "pages/migration.rs"]
mod migration;
#[rustfmt::skip]
#[path = "pages/operations.rs"]
mod operations;
#[rustfmt::skip]
#[path = "pages/rabbitmq.rs"]
mod rabbitmq;
#[rustfmt::skip]
#[path = "pages/existing_service.rs"]
mod existing_service;
#[rustfmt::skip]
#[path = "pages/outbox.rs"]
mod outbox;
#[rustfmt::skip]
#[path = "pages/handlers.rs"]
mod handlers;
#[rustfmt::skip]
#[path = "pages/http.rs"]
mod http;
#[rustfmt::skip]
#[path = "pages/how_often.rs"]
mod how_often;
#[rustfmt::skip]
#[path = "pages/ordering.rs"]
mod ordering;
#[rustfmt::skip]
#[path = "pages/production.rs"]
mod production;
#[rustfmt::skip]
#[path = "pages/publishing.rs"]
mod publishing;
#[rustfmt::skip]
#[path = "pages/replies.rs"]
mod replies;
#[rustfmt::skip]
#[path = "pages/sequences.rs"]
mod sequences;
#[rustfmt::skip]
#[path = "pages/stores.rs"]
mod stores;
#[rustfmt::skip]
#[path = "pages/streams.rs"]
mod streams;

/// A page, and the module that its parts are in.
const PAGES: [(&str, &str); 24] = [
    ("docs/batches.md", "batches"),
    ("docs/outbox.md", "outbox"),
    ("docs/cookbook.md", "cookbook"),
    ("docs/existing-service.md", "existing_service"),
    // Compiled where their dependencies are.
    ("docs/grpc.md", "../../../idem-http/tests/http/grpc/page"),
    (
        "docs/http-clients.md",
        "../../../idem-http/tests/http/clients_page",
    ),
    ("docs/handlers.md", "handlers"),
    ("docs/http.md", "http"),
    ("docs/how-often.md", "how_often"),
    ("docs/kafka.md", "../../../idem-kafka/tests/kafka/page"),
    ("docs/production.md", "production"),
    ("docs/migration.md", "migration"),
    ("docs/operations.md", "operations"),
    ("docs/ordering.md", "ordering"),
    ("docs/publishing.md", "publishing"),
    ("docs/rabbitmq.md", "rabbitmq"),
    ("docs/replies.md", "replies"),
    ("docs/sequences.md", "sequences"),
    ("docs/stores.md", "stores"),
    ("docs/stores/memory.md", "stores"),
    ("docs/stores/postgres.md", "stores"),
    ("docs/stores/redis.md", "stores"),
    ("docs/stores/sqlite.md", "stores"),
    ("docs/streams.md", "streams"),
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a text without their indentation.
fn lines(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

/// The parts of programs that a page shows.
fn parts(page: &str) -> Vec<String> {
    let fenced = page.split("```rust,ignore\n").skip(1);
    let blocks = fenced.filter_map(|rest| rest.split_once("\n```"));
    blocks.map(|(block, _)| lines(block)).collect()
}

#[test]
fn every_part_of_a_program_is_compiled() {
    let mut found = 0;
    for (page, module) in PAGES {
        let compiled = lines(&read(&format!("tests/pages/{module}.rs")));
        for part in parts(&read(&format!("../{page}"))) {
            assert!(
                compiled.contains(&part),
                "{page} shows what {module}.rs lacks:\n{part}"
            );
            found += 1;
        }
    }
    assert!(found >= 20, "{found} parts were found");
}

#[test]
fn every_page_is_looked_at() {
    for folder in ["../docs", "../docs/stores"] {
        let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
        for entry in entries {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|it| it != "md") {
                continue;
            }
            let page = fs::read_to_string(&path).unwrap();
            let is_known = PAGES.iter().any(|(known, _)| path.ends_with(known));
            // What is fenced `rust` otherwise is compiled as a doctest, where a page has them: see `lib.rs`.
            assert!(
                is_known || !page.contains("rust,ignore"),
                "{}",
                path.display()
            );
        }
    }
}
