//! Tables of stitched variants.

use crate::verbs::output::Table;
use vitempo::zoo::Variants;

/// A table with a row per stitched variant: the variant of each position, then its own cells under
/// `headings`; the first `left` of these are text.
pub fn table<'a, C: IntoIterator<Item = String>>(
    variants: &Variants,
    headings: &[&str],
    left: usize,
    rows: impl Iterator<Item = (&'a [usize], C)>,
) -> Table {
    let positions = variants.subgraphs.len();
    let of_positions = (1..=positions).map(|position| format!("s{position}"));
    let headings: Vec<String> =
        of_positions.chain(headings.iter().map(|heading| (*heading).to_owned())).collect();
    let mut table = Table::new(&headings, positions + left);
    for (stitched, cells) in rows {
        table.row(variants.named(stitched).into_iter().map(str::to_owned).chain(cells));
    }
    table
}
