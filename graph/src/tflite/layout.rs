//! The layout pass's arithmetic: the order of a tensor's dimensions in memory, as a permutation of
//! ONNX's dimensions.
//!
//! A [`Layout`] lists logical dimensions in stored order: `[0, 2, 3, 1]` is an image N, C, H, W
//! that is stored as N, H, W, C. Transposing a tensor changes its layout and nothing else; if an
//! operator needs another layout than the present one, the engine has to move elements.

/// Logical dimensions in stored order.
pub(super) type Layout = Vec<usize>;

/// Stored in the graph's order.
pub(super) fn plain(rank: usize) -> Layout {
    (0..rank).collect()
}

/// Dimension 1 stored last.
pub(super) fn channels_last(rank: usize) -> Layout {
    if rank < 3 { plain(rank) } else { [0].into_iter().chain(2..rank).chain([1]).collect() }
}

/// The stored shape of a tensor of that logical shape.
pub(super) fn stored(layout: &[usize], shape: &[usize]) -> Vec<usize> {
    layout.iter().map(|&d| shape[d]).collect()
}

/// Where a logical dimension is stored.
pub(super) fn position(layout: &[usize], dimension: usize) -> usize {
    layout.iter().position(|&d| d == dimension).unwrap_or(dimension)
}

/// The layout of a tensor after its logical dimensions were permuted by `perm` (ONNX Transpose),
/// with the elements left in place.
pub(super) fn transposed(layout: &[usize], perm: &[usize]) -> Layout {
    layout.iter().map(|&d| position(perm, d)).collect()
}

/// The permutation of stored dimensions (TensorFlow Lite's TRANSPOSE) that leads from one layout to
/// another.
pub(super) fn movement(from: &[usize], to: &[usize]) -> Vec<usize> {
    to.iter().map(|&d| position(from, d)).collect()
}

/// Whether two layouts of a tensor of that shape differ in dimensions of 1 only, so that the same
/// elements lie in the same order.
pub(super) fn same_memory(shape: &[usize], a: &[usize], b: &[usize]) -> bool {
    let large =
        |layout: &[usize]| layout.iter().copied().filter(|&d| shape[d] != 1).collect::<Vec<_>>();
    large(a) == large(b)
}

/// The layout with `more` dimensions of 1 put in front.
pub(super) fn prefixed(layout: &[usize], more: usize) -> Layout {
    (0..more).chain(layout.iter().map(|&d| d + more)).collect()
}

/// The layout without some logical dimensions.
pub(super) fn without(layout: &[usize], gone: &[usize]) -> Layout {
    let kept = layout.iter().filter(|d| !gone.contains(d));
    kept.map(|&d| d - gone.iter().filter(|&&g| g < d).count()).collect()
}

/// Runs of dimensions (not 1) of two shapes that hold the same elements: `[4, 6]` and `[4, 2, 3]`
/// give `([0], [0])` and `([1], [1, 2])`.
fn runs(from: &[usize], to: &[usize]) -> Option<Vec<(Vec<usize>, Vec<usize>)>> {
    let large = |shape: &[usize]| (0..shape.len()).filter(|&d| shape[d] != 1).collect::<Vec<_>>();
    let (left, right) = (large(from), large(to));
    let (mut i, mut j) = (0, 0);
    let mut runs = Vec::new();
    while i < left.len() && j < right.len() {
        let (first, second) = (i, j);
        let (mut a, mut b) = (from[left[i]], to[right[j]]);
        while a != b {
            if a < b {
                i += 1;
                a = a.checked_mul(from[*left.get(i)?])?;
            } else {
                j += 1;
                b = b.checked_mul(to[*right.get(j)?])?;
            }
        }
        runs.push((left[first..=i].to_vec(), right[second..=j].to_vec()));
        i += 1;
        j += 1;
    }
    (i == left.len() && j == right.len()).then_some(runs)
}

/// The layout in which a reshape from `from` to `to` leaves a tensor in `layout` if no element
/// moves; `None` where elements have to.
pub(super) fn reshaped(layout: &[usize], from: &[usize], to: &[usize]) -> Option<Layout> {
    let runs = runs(from, to)?;
    let mut order: Vec<usize> = Vec::new();
    let stored: Vec<usize> = layout.iter().copied().filter(|&d| from[d] != 1).collect();
    let mut at = 0;
    while at < stored.len() {
        let (left, right) = runs.iter().find(|(left, _)| left[0] == stored[at])?;
        if stored.get(at..at + left.len()) != Some(left.as_slice()) {
            return None;
        }
        order.extend(right);
        at += left.len();
    }
    Some(with_ones(&order, to, *layout == channels_last(from.len()) && from.len() >= 4))
}

/// The layout of shape `to` that stores its dimensions (not 1) in this order: plain or channels
/// last where that is one, `prefer_last` decides between them; else each dimension of 1 behind the
/// one before it.
fn with_ones(order: &[usize], to: &[usize], prefer_last: bool) -> Layout {
    let fits =
        |layout: &Layout| layout.iter().copied().filter(|&d| to[d] != 1).eq(order.iter().copied());
    let (plain, last) = (plain(to.len()), channels_last(to.len()));
    let image = to.len() >= 4;
    if image && prefer_last && fits(&last) {
        return last;
    }
    if fits(&plain) {
        return plain;
    }
    if image && fits(&last) {
        return last;
    }
    let mut layout = order.to_vec();
    for d in (0..to.len()).filter(|&d| to[d] == 1) {
        let at =
            if d == 0 { 0 } else { layout.iter().position(|&o| o + 1 == d).map_or(0, |at| at + 1) };
        layout.insert(at, d);
    }
    layout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_change_the_layout_only() {
        let image = channels_last(4);
        assert_eq!(image, [0, 2, 3, 1]);
        assert_eq!(stored(&image, &[1, 3, 8, 9]), [1, 8, 9, 3]);
        // N, C, H, W stored channels last, transposed to N, H, W, C: plain.
        assert_eq!(transposed(&image, &[0, 2, 3, 1]), plain(4));
        assert_eq!(movement(&plain(4), &image), [0, 2, 3, 1]);
        assert_eq!(movement(&image, &plain(4)), [0, 3, 1, 2]);
    }

    #[test]
    fn reshapes_that_move_nothing() {
        // (layout, from, to, expected)
        type Case<'a> = (&'a [usize], &'a [usize], &'a [usize], Option<Layout>);
        let cases: [Case<'_>; 8] = [
            (&[0, 2, 3, 1], &[1, 192, 14, 14], &[1, 192, 196], Some(vec![0, 2, 1])),
            (&[0, 2, 1], &[1, 192, 196], &[1, 192, 14, 14], Some(vec![0, 2, 3, 1])),
            (&[0, 1, 2], &[1, 197, 192], &[1, 197, 3, 64], Some(vec![0, 1, 2, 3])),
            (&[0, 2, 3, 1], &[1, 192, 14, 14], &[1, 37632], None),
            (&[0, 2, 3, 1], &[1, 192, 1, 1], &[1, 192], Some(vec![0, 1])),
            (&[0, 1], &[1, 192], &[1, 192, 1, 1], Some(vec![0, 1, 2, 3])),
            (&[0, 2, 1, 3], &[1, 197, 3, 64], &[1, 197, 192], None),
            (&[0, 2, 3, 1], &[1, 8, 4, 4], &[1, 2, 4, 4, 4], Some(vec![0, 3, 4, 1, 2])),
        ];
        for (layout, from, to, expected) in cases {
            assert_eq!(reshaped(layout, from, to), expected, "{layout:?} {from:?} {to:?}");
        }
    }

    #[test]
    fn dimensions_of_one_may_lie_anywhere() {
        assert!(same_memory(&[1, 8, 1, 1], &[0, 1, 2, 3], &[0, 2, 3, 1]));
        assert!(!same_memory(&[1, 8, 2, 1], &[0, 1, 2, 3], &[0, 2, 3, 1]));
        assert_eq!(without(&[0, 2, 3, 1], &[2, 3]), [0, 1]);
        assert_eq!(prefixed(&[1, 0], 2), [0, 1, 3, 2]);
    }
}
