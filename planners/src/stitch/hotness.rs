//! Hotness of subgraphs (eq. 7): over all objectives, the share of the variants meeting an
//! objective that contain the subgraph, summed. Without enumeration where there are too many
//! variants: they are counted on a lattice of (drop, latency).
//!
//! For one position, let R be the number of combinations of all other positions by their drop and
//! latency. The variants that contain subgraph i and meet (D, L) are the combinations in R with a
//! drop of at most D less that of i, and a latency of at most L less that of i: one lookup in R's
//! cumulative sums. S log S convolutions give the R of all S positions, by divide and conquer.
//!
//! Theta is taken in the chosen order, but for [`as_printed`]. With 0/0 as 0, each position's
//! values add up to the number of objectives that can be met.

use super::{
    Additive, Order, Slo, StitchError, Zoo, each_variant, enumeration::MOST_ENUMERATED, zoo::Part,
};
use std::collections::BTreeMap;

/// Hotness of one task's subgraphs, by position and variant.
pub type Hotness = Vec<Vec<f64>>;

/// The resolution of drops and latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lattice {
    /// Steps from no loss of accuracy to the largest.
    pub drops: usize,
    /// Steps from no latency to the longest.
    pub latencies: usize,
}

impl Default for Lattice {
    fn default() -> Self {
        Self { drops: 256, latencies: 256 }
    }
}

/// Hotness of a task's subgraphs over objectives: by enumeration where there are at most
/// [`MOST_ENUMERATED`] stitched variants, else [`counted`].
///
/// # Errors
/// As [`counted`].
pub fn hotness(
    zoo: &Zoo,
    task: usize,
    order: &Order,
    slos: &[Slo],
) -> Result<Hotness, StitchError> {
    if zoo.stitched_variants(task).is_some_and(|count| count <= MOST_ENUMERATED) {
        enumerated(zoo, task, order, slos)
    } else {
        counted(zoo, task, order, slos, Lattice::default())
    }
}

/// By the definition.
///
/// # Errors
/// [`StitchError::TooMany`] above [`MOST_ENUMERATED`] stitched variants.
pub fn enumerated(
    zoo: &Zoo,
    task: usize,
    order: &Order,
    slos: &[Slo],
) -> Result<Hotness, StitchError> {
    let variants = zoo.tasks().get(task).map_or(0, |t| t.variants.len());
    let mut occur = vec![vec![vec![0u64; variants]; zoo.positions()]; slos.len()];
    each_variant(zoo, task, order, |stitched, latency_ns, accuracy_bp| {
        for (_, counts) in
            slos.iter().zip(&mut occur).filter(|(slo, _)| slo.is_met_by(accuracy_bp, latency_ns))
        {
            for (row, &variant) in counts.iter_mut().zip(stitched) {
                row[variant] += 1;
            }
        }
    })?;
    Ok(shares(&occur, zoo.positions(), variants))
}

/// Eq. 7 to the letter: Theta of algorithm 1, the variants that are accurate enough, and fast
/// enough in some of the orders.
///
/// # Errors
/// [`StitchError::TooMany`] above [`MOST_ENUMERATED`] stitched variants.
pub fn as_printed(
    zoo: &Zoo,
    task: usize,
    orders: &[Order],
    slos: &[Slo],
) -> Result<Hotness, StitchError> {
    let variants = zoo.tasks().get(task).map_or(0, |t| t.variants.len());
    // By variant: its accuracy, and its least latency in any order.
    let mut least: BTreeMap<Vec<usize>, (u32, u64)> = BTreeMap::new();
    for order in orders {
        each_variant(zoo, task, order, |stitched, latency_ns, accuracy_bp| {
            let entry = least.entry(stitched.to_vec()).or_insert((accuracy_bp, latency_ns));
            entry.1 = entry.1.min(latency_ns);
        })?;
    }
    let mut occur = vec![vec![vec![0u64; variants]; zoo.positions()]; slos.len()];
    for (stitched, &(accuracy_bp, latency_ns)) in &least {
        let met = slos.iter().zip(&mut occur);
        for (_, counts) in met.filter(|(slo, _)| slo.is_met_by(accuracy_bp, latency_ns)) {
            for (row, &variant) in counts.iter_mut().zip(stitched) {
                row[variant] += 1;
            }
        }
    }
    Ok(shares(&occur, zoo.positions(), variants))
}

/// Sums Occur / |Theta| over objectives; every variant of Theta occurs once at each position.
fn shares(occur: &[Vec<Vec<u64>>], positions: usize, variants: usize) -> Hotness {
    let mut hotness = vec![vec![0.0; variants]; positions];
    for counts in occur {
        for (sums, row) in hotness.iter_mut().zip(counts) {
            let theta: u64 = row.iter().sum();
            sums.iter_mut()
                .zip(row)
                .for_each(|(sum, &count)| *sum += count as f64 / theta.max(1) as f64);
        }
    }
    hotness
}

/// By counting on a lattice: exact where latencies and drops are multiples of its cells, else for
/// latencies and drops rounded to them.
///
/// # Errors
/// [`StitchError::Task`] where accuracies are not sums of drops, or variants are more than 2^64.
pub fn counted(
    zoo: &Zoo,
    task: usize,
    order: &Order,
    slos: &[Slo],
    lattice: Lattice,
) -> Result<Hotness, StitchError> {
    zoo.check_order(order)?;
    let found = zoo
        .tasks()
        .get(task)
        .ok_or_else(|| StitchError::zoo(format!("there is no task {task}")))?;
    let refuse = |reason: String| StitchError::Task { task: found.name.clone(), reason };
    let accuracy = found.accuracy.additive().ok_or_else(|| {
        refuse(
            "its accuracies are no sums of drops: its variants can be enumerated, not counted"
                .into(),
        )
    })?;
    if zoo.stitched_variants(task).is_none_or(|count| count > u128::from(u64::MAX)) {
        return Err(refuse("it has more than 2^64 stitched variants, too many to count".into()));
    }
    let parts = zoo.parts(task, order);
    let grid = Grid::new(accuracy, &parts, slos, lattice);
    let corners: Vec<Option<(usize, usize)>> =
        slos.iter().map(|slo| grid.corner(accuracy, *slo)).collect();
    let variants = found.variants.len();
    let mut occur = vec![vec![vec![0u64; variants]; parts.len()]; slos.len()];
    let rows: Vec<Vec<Cell>> = parts
        .iter()
        .enumerate()
        .map(|(position, row)| row.iter().map(|part| grid.cell(accuracy, position, part)).collect())
        .collect();
    let mut none_yet = vec![0u64; grid.drops * grid.latencies];
    none_yet[0] = 1;
    grid.leave_each_out(none_yet, &rows, 0..rows.len(), &mut |position, mut ways| {
        grid.accumulate(&mut ways);
        for (counts, corner) in occur.iter_mut().zip(&corners) {
            let Some((drop, latency)) = *corner else { continue };
            for cell in &rows[position] {
                if let (Some(drop), Some(latency)) =
                    (drop.checked_sub(cell.drop), latency.checked_sub(cell.latency))
                {
                    counts[position][cell.variant] = ways[drop * grid.latencies + latency];
                }
            }
        }
    });
    Ok(shares(&occur, parts.len(), variants))
}

/// A subgraph on the lattice.
struct Cell {
    variant: usize,
    drop: usize,
    latency: usize,
}

/// Cells up to the loosest objective; combinations beyond it are not counted.
struct Grid {
    drops: usize,
    latencies: usize,
    drop_bp: u64,
    latency_ns: u64,
}

impl Grid {
    fn new(accuracy: &Additive, parts: &[Vec<Part>], slos: &[Slo], lattice: Lattice) -> Self {
        let most = |ns: fn(&Additive, usize, &Part) -> u64| {
            let of_row = |(position, row): (usize, &Vec<Part>)| {
                row.iter().map(|part| ns(accuracy, position, part)).max().unwrap_or(0)
            };
            parts.iter().enumerate().map(of_row).fold(0, u64::saturating_add)
        };
        let allowed =
            slos.iter().filter_map(|slo| accuracy.allowed_drop(slo.accuracy_bp)).max().unwrap_or(0);
        let drop = u64::from(allowed)
            .min(most(|a, position, part| u64::from(a.drop_of(position, part.variant))));
        let latency = slos
            .iter()
            .map(|slo| slo.latency_ns)
            .max()
            .unwrap_or(0)
            .min(most(|_, _, part| part.latency_ns));
        let cells = |range: u64, most: usize| {
            let size = range.div_ceil((most as u64).saturating_sub(1).max(1)).max(1);
            (size, (range / size) as usize + 1)
        };
        let ((drop_bp, drops), (latency_ns, latencies)) =
            (cells(drop, lattice.drops), cells(latency, lattice.latencies));
        Self { drops, latencies, drop_bp, latency_ns }
    }

    fn cell(&self, accuracy: &Additive, position: usize, part: &Part) -> Cell {
        let nearest = |value: u64, size: u64| (value.saturating_add(size / 2) / size) as usize;
        let drop = nearest(u64::from(accuracy.drop_of(position, part.variant)), self.drop_bp);
        Cell { variant: part.variant, drop, latency: nearest(part.latency_ns, self.latency_ns) }
    }

    /// The last cell that meets an objective; `None` where no accuracy is high enough.
    fn corner(&self, accuracy: &Additive, slo: Slo) -> Option<(usize, usize)> {
        let drop = u64::from(accuracy.allowed_drop(slo.accuracy_bp)?) / self.drop_bp;
        Some((
            (drop as usize).min(self.drops - 1),
            ((slo.latency_ns / self.latency_ns) as usize).min(self.latencies - 1),
        ))
    }

    /// The combinations with one more position.
    fn through(&self, ways: &[u64], row: &[Cell]) -> Vec<u64> {
        let mut longer = vec![0u64; ways.len()];
        for cell in
            row.iter().filter(|cell| cell.drop < self.drops && cell.latency < self.latencies)
        {
            let shifted = longer[cell.drop * self.latencies..].chunks_exact_mut(self.latencies);
            for (to, from) in shifted.zip(ways.chunks_exact(self.latencies)) {
                to[cell.latency..].iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
        longer
    }

    /// Calls the function with each position of a range and the combinations of all other
    /// positions, given the combinations of all positions outside the range.
    fn leave_each_out(
        &self,
        ways: Vec<u64>,
        rows: &[Vec<Cell>],
        range: std::ops::Range<usize>,
        visit: &mut impl FnMut(usize, Vec<u64>),
    ) {
        if range.len() < 2 {
            return range.for_each(|position| visit(position, ways.clone()));
        }
        let middle = range.start + range.len() / 2;
        for (kept, done) in
            [(range.start..middle, middle..range.end), (middle..range.end, range.start..middle)]
        {
            let longer = done
                .map(|position| &rows[position])
                .fold(ways.clone(), |ways, row| self.through(&ways, row));
            self.leave_each_out(longer, rows, kept, visit);
        }
    }

    /// Sums over all cells with no larger drop and no larger latency.
    fn accumulate(&self, ways: &mut [u64]) {
        for row in ways.chunks_exact_mut(self.latencies) {
            row.iter_mut().fold(0, |sum, count| {
                *count += sum;
                *count
            });
        }
        for at in self.latencies..ways.len() {
            ways[at] += ways[at - self.latencies];
        }
    }
}
