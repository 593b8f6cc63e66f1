//! [`PaperTable`]: a table as printed, each cell with the claims that recompute it from the paper's
//! other cells.

use super::claim::{Claim, Figure};
use serde::Serialize;

/// One printed cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// As printed.
    pub printed: Figure,
    /// What the paper's other cells say; empty where nothing follows from them.
    pub claims: Vec<Claim>,
}

/// One quantity over all columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperRow {
    /// With its unit.
    pub what: String,
    /// One per column.
    pub cells: Vec<Cell>,
}

/// A table of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperTable {
    /// As the paper calls it: `table II`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Their headings.
    pub columns: Vec<String>,
    /// Quantities, in the paper's order.
    pub rows: Vec<PaperRow>,
}

impl Cell {
    /// The first claim that the printed figure does not agree with.
    #[must_use]
    pub fn contradiction(&self) -> Option<&Claim> {
        self.claims.iter().find(|claim| !claim.holds())
    }
}

impl PaperTable {
    pub(super) fn new(name: &str, title: &str, columns: Vec<String>) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn row(mut self, what: &str, printed: Vec<Figure>) -> Self {
        let cells =
            printed.into_iter().map(|printed| Cell { printed, claims: Vec::new() }).collect();
        self.rows.push(PaperRow { what: what.to_owned(), cells });
        self
    }

    /// Recomputes every cell of the last row from the same columns of other rows, of this or
    /// another table.
    pub(super) fn follows(
        self,
        rule: &str,
        inputs: &[Vec<Figure>],
        formula: fn(&[f64]) -> f64,
    ) -> Self {
        self.follows_within(0.0, rule, inputs, formula)
    }

    /// The same, where repeated measurements differ by this share.
    pub(super) fn follows_within(
        mut self,
        share: f64,
        rule: &str,
        inputs: &[Vec<Figure>],
        formula: fn(&[f64]) -> f64,
    ) -> Self {
        let (name, columns) = (&self.name, &self.columns);
        let Some(row) = self.rows.last_mut() else { return self };
        for (index, cell) in row.cells.iter_mut().enumerate() {
            let column: Vec<Figure> = inputs
                .iter()
                .map(|row| row.get(index).copied().unwrap_or(Figure::new(f64::NAN, 0)))
                .collect();
            let what = format!("{rule}, {}", columns.get(index).map_or("", String::as_str));
            cell.claims
                .push(Claim::new(name, what, cell.printed, &column, formula).repeatable_to(share));
        }
        self
    }

    /// Every claim of every cell.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_know_what_contradicts_them() {
        let figures =
            |values: &[f64]| values.iter().map(|&v| Figure::new(v, 1)).collect::<Vec<_>>();
        let (a, b) = (figures(&[1.0, 2.0]), figures(&[0.5, 0.5]));
        let table = PaperTable::new("table I", "", vec!["left".to_owned(), "right".to_owned()])
            .row("sum", figures(&[1.5, 3.0]))
            .follows("sum of both", &[a, b], |x| x.iter().sum());
        assert_eq!(table.claims().count(), 2);
        assert_eq!(table.rows[0].cells[0].contradiction(), None);
        let wrong = table.rows[0].cells[1].contradiction().map(|c| (c.what.as_str(), c.computed));
        assert_eq!(wrong, Some(("sum of both, right", 2.5)));
    }
}
