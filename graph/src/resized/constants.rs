//! Constants that exporters compute from the image's size, and that no rule gives for another one:
//! grids of sampling, indices, the counts of TopK, and paddings up to a multiple.

use super::extent::{Dimension, Extent, Known};
use crate::{ConstantData, Graph, Node, OpKind, ValueSource};

/// What to do about a node that is refused.
const EXPORT: &str = "export the model at that size";
/// A TopK of fewer elements takes as many of any size.
const LEAST_COUNT: usize = 16;
/// A TopK takes all elements, or one in so many, where its count comes from the size.
const SHARES: [usize; 5] = [1, 2, 4, 8, 16];
/// Multiples that images are padded to: windows, patches, and what networks divide them by.
const MULTIPLES: [usize; 11] = [7, 8, 12, 14, 16, 24, 28, 32, 48, 56, 64];

/// Refuses a node with such a constant where a dimension that it belongs to changes.
pub fn check(
    graph: &Graph,
    node: &Node,
    inputs: &[Option<&[Dimension]>],
    known: &Known,
) -> Result<(), String> {
    let rule = match node.op.kind {
        OpKind::GridSample => grid,
        OpKind::Gather => gather,
        OpKind::GatherElements => gather_elements,
        OpKind::GatherNd | OpKind::ScatterNd => gather_nd,
        OpKind::TopK => top_k,
        OpKind::Pad => pad,
        _ => return Ok(()),
    };
    let operands = Operands { graph, node, inputs, known };
    match operands.extents(0) {
        Some(data) if data.iter().any(|e| e.changed()) => rule(&operands, &data),
        _ => Ok(()),
    }
}

struct Operands<'a> {
    graph: &'a Graph,
    node: &'a Node,
    inputs: &'a [Option<&'a [Dimension]>],
    known: &'a Known,
}

impl Operands<'_> {
    /// Old and new extents of an input; those of a constant stay.
    fn extents(&self, input: usize) -> Option<Vec<Extent>> {
        if let Some(dimensions) = self.inputs.get(input)? {
            return Some(dimensions.iter().map(Dimension::whole).collect());
        }
        let tensor = self.graph.value(*self.node.inputs.get(input)?).tensor.as_ref()?;
        Some(tensor.shape.iter().map(|&d| Extent::new(d, d, None)).collect())
    }

    /// The extents of an input that stays as it is.
    fn constant(&self, input: usize) -> Option<Vec<usize>> {
        let extents = self.extents(input)?;
        let stays = extents.iter().all(|e| !e.changed());
        stays.then(|| extents.iter().map(|e| e.old).collect())
    }

    /// The numbers of a constant.
    fn numbers(&self, input: usize) -> Result<&[i64], String> {
        let source = self.node.inputs.get(input).map(|id| &self.graph.value(*id).source);
        match source {
            Some(ValueSource::Constant(Some(ConstantData::Ints(numbers)))) => {
                self.known.spend(numbers.len(), 0)?;
                Ok(numbers)
            }
            _ => Ok(&[]),
        }
    }

    fn axis(&self, data: &[Extent]) -> Option<Extent> {
        let axis = self.node.op.attributes.int("axis")?;
        data.get(usize::try_from(axis).ok()?).copied()
    }
}

fn product(extents: &[usize]) -> usize {
    extents.iter().copied().fold(1, usize::saturating_mul)
}

/// A grid that is as large as the image, or a whole number of times larger or smaller.
fn grid(operands: &Operands<'_>, data: &[Extent]) -> Result<(), String> {
    let Some(grid) = operands.constant(1) else { return Ok(()) };
    let sides = data.get(2..).unwrap_or_default();
    // Behind the images, and before the coordinates of each place.
    let places = grid.split_last().and_then(|(_, rest)| rest.get(1..)).unwrap_or_default();
    let old: Vec<usize> = sides.iter().map(|e| e.old).collect();
    let follows =
        product(places) == product(&old) || is_multiple(&old, places) || is_multiple(places, &old);
    if follows && sides.iter().any(|e| e.changed()) {
        return Err(format!("its grid is a constant of the image's size, {places:?}: {EXPORT}"));
    }
    Ok(())
}

/// Whether all extents are the same number of times those of the others.
fn is_multiple(large: &[usize], small: &[usize]) -> bool {
    let (Some(first), Some(least)) = (large.first(), small.first()) else { return false };
    let ratio = first / (*least).max(1);
    let is_one = |(large, small): (&usize, &usize)| *small > 1 && *large == ratio * small;
    large.len() == small.len() && large.iter().zip(small).all(is_one)
}

/// Indices of all elements, or of every second, third, ... one.
fn gather(operands: &Operands<'_>, data: &[Extent]) -> Result<(), String> {
    let Some(extent) = operands.axis(data).filter(|e| e.changed()) else { return Ok(()) };
    let Some(shape) = operands.constant(1) else { return Ok(()) };
    let is_whole = shape.contains(&extent.old) || product(&shape) == extent.old;
    if is_whole || is_even(operands.numbers(1)?, extent.old) {
        return Err(format!("its indices are constants that go through {}: {EXPORT}", extent.old));
    }
    Ok(())
}

/// Whether numbers go through 0 to `count` in even steps.
fn is_even(numbers: &[i64], count: usize) -> bool {
    let &[first, second, ..] = numbers else { return false };
    let Some(step) = second.checked_sub(first).filter(|step| *step != 0) else { return false };
    let (low, high) = numbers.iter().fold((first, first), |(l, h), &n| (l.min(n), h.max(n)));
    let size = step.unsigned_abs();
    let goes_through = low >= 0
        && low.unsigned_abs() < size
        && high.unsigned_abs().saturating_add(size) >= count as u64;
    goes_through && numbers.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step))
}

/// Indices as long as the data in a dimension that changes.
fn gather_elements(operands: &Operands<'_>, data: &[Extent]) -> Result<(), String> {
    let Some(indices) = operands.constant(1) else { return Ok(()) };
    let mut both = data.iter().zip(&indices);
    match both.find(|(extent, index)| extent.changed() && extent.old == **index) {
        Some((extent, _)) => {
            Err(format!("its indices are constants that go through {}: {EXPORT}", extent.old))
        }
        None => Ok(()),
    }
}

/// As many indices as the data has elements in the dimensions that they index.
fn gather_nd(operands: &Operands<'_>, data: &[Extent]) -> Result<(), String> {
    let Some(indices) = operands.constant(1) else { return Ok(()) };
    let Some((&depth, places)) = indices.split_last() else { return Ok(()) };
    let batch = operands.node.op.attributes.int("batch_dims").unwrap_or(0);
    let indexed = data.iter().skip(usize::try_from(batch).unwrap_or(0)).take(depth);
    let indexed: Vec<Extent> = indexed.copied().collect();
    let all = product(&indexed.iter().map(|e| e.old).collect::<Vec<_>>());
    let follows = |e: &Extent| e.changed() && (places.contains(&e.old) || product(places) == all);
    match indexed.iter().find(|e| follows(e)) {
        Some(extent) => {
            Err(format!("its indices are constants that go through {}: {EXPORT}", extent.old))
        }
        None => Ok(()),
    }
}

/// A count that is all elements, or half, a quarter, ... of them.
fn top_k(operands: &Operands<'_>, data: &[Extent]) -> Result<(), String> {
    let Some(extent) = operands.axis(data).filter(|e| e.changed()) else { return Ok(()) };
    let k = operands.node.op.attributes.int("k").and_then(|k| usize::try_from(k).ok());
    let Some(k) = k else { return Ok(()) };
    let is_share = |share: &usize| k.checked_mul(*share) == Some(extent.old);
    if k >= LEAST_COUNT && SHARES.iter().any(is_share) {
        return Err(format!("its count {k} comes from a size of {}: {EXPORT}", extent.old));
    }
    Ok(())
}

/// Paddings behind the image that fill it up to a multiple, and would be others at the new size.
fn pad(operands: &Operands<'_>, data: &[Extent]) -> Result<(), String> {
    let pads = operands.node.op.attributes.ints("pads");
    if pads.len() != 2 * data.len() {
        return Ok(());
    }
    let (before, after) = pads.split_at(data.len());
    let changed: Vec<(Extent, usize)> = data
        .iter()
        .zip(after)
        .filter(|(extent, _)| extent.changed())
        .map(|(extent, &after)| (*extent, usize::try_from(after).unwrap_or(0)))
        .collect();
    // A convolution that pads behind the image alone needs one element.
    let fills = changed.iter().any(|(_, after)| *after > 1);
    let is_behind = data.iter().zip(before).all(|(e, &before)| !e.changed() || before == 0);
    let rest = |extent: usize, multiple: usize| extent.next_multiple_of(multiple) - extent;
    let multiple = MULTIPLES.iter().copied().find(|&multiple| {
        changed.iter().all(|(extent, after)| rest(extent.old, multiple) == *after)
    });
    let Some(multiple) = multiple.filter(|_| fills && is_behind) else { return Ok(()) };
    let other = changed.iter().find(|(extent, after)| rest(extent.new, multiple) != *after);
    match other {
        Some((extent, after)) => {
            let (old, new) = (extent.old, extent.new);
            Err(format!(
                "it pads {old} by {after} to a multiple of {multiple}, and {new} needs {}: {EXPORT}",
                rest(new, multiple)
            ))
        }
        None => Ok(()),
    }
}
