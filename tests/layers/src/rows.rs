//! The table of rows in `ARCHITECTURE.md`.

use std::collections::BTreeMap;

/// In which row each top-level module of a crate stands. A greater number is further up.
#[derive(Debug)]
pub struct Rows(BTreeMap<String, u32>);

impl Rows {
    /// Reads the table whose head names this folder: `| row | idem-core/src | holds |`.
    ///
    /// # Panics
    /// If there is no such table, or a module stands in it twice.
    pub fn read(document: &str, folder: &str) -> Self {
        let cells = |line: &str| -> Vec<String> {
            let cells = line.trim().trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        };
        let mut rows = BTreeMap::new();
        let lines = document.lines().skip_while(|line| {
            let head = cells(line);
            head.first().is_none_or(|cell| cell != "row")
                || head.get(1).is_none_or(|cell| cell != folder)
        });
        for line in lines.skip(2).take_while(|line| line.starts_with('|')) {
            let cells = cells(line);
            let row = cells[0]
                .parse()
                .unwrap_or_else(|_| panic!("`{}` is no row", cells[0]));
            // Between backticks stand the modules, around them commas.
            for module in cells[1].split('`').skip(1).step_by(2) {
                let module = module.trim_end_matches('/').trim_end_matches(".rs");
                let before = rows.insert(module.to_owned(), row);
                assert!(before.is_none(), "`{module}` stands in two rows");
            }
        }
        assert!(
            !rows.is_empty(),
            "there is no table of the rows of {folder}"
        );
        Self(rows)
    }

    pub(crate) fn of(&self, module: &str) -> Option<u32> {
        self.0.get(module).copied()
    }

    pub(crate) fn modules(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
