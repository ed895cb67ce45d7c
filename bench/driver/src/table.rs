//! A table for people: a heading, and columns as wide as what is in them.

use std::fmt;

/// Rows of equally many cells; the first is the heading.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// So many columns hold words; the others hold figures, which end where the column ends.
    words: usize,
}

impl Table {
    pub(crate) fn new(words: usize, heading: &[&str]) -> Self {
        let heading = heading.iter().map(ToString::to_string).collect();
        Self {
            rows: vec![heading],
            words,
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn widths(&self) -> Vec<usize> {
        let columns = 0..self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(move |row| row[column].chars().count());
        columns
            .map(|column| width(column).max().unwrap_or_default())
            .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate();
            let line: String = cells
                .map(|(column, (cell, width))| {
                    if column < self.words {
                        format!("  {cell:<width$}")
                    } else {
                        format!("  {cell:>width$}")
                    }
                })
                .collect();
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A figure without a fraction, its thousands apart.
pub(crate) fn grouped(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(1, &["store", "per s"]);
        table.row(vec!["redis".to_owned(), "12".to_owned()]);
        table.row(vec!["sqlite".to_owned(), "1,234".to_owned()]);
        let expected = "  store   per s\n  redis      12\n  sqlite  1,234\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn thousands_are_apart() {
        let cases = [
            (0.4, "0"),
            (999.0, "999"),
            (1000.0, "1,000"),
            (12_345_678.9, "12,345,679"),
        ];
        for (figure, expected) in cases {
            assert_eq!(grouped(figure), expected);
        }
    }
}
