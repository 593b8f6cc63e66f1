//! Permutations of dimensions, and the effect of Squeeze and Unsqueeze on them. `perm[i]` is the
//! input dimension that becomes dimension `i`.

/// The permutation of a `perm` attribute, when it is one.
pub(super) fn valid(perm: &[i64]) -> Option<Vec<usize>> {
    let all_there = (0..perm.len() as i64).all(|dimension| perm.contains(&dimension));
    all_there.then(|| perm.iter().map(|&p| p as usize).collect())
}

/// The permutation that undoes `perm`.
pub(super) fn invert(perm: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    inverse
}

/// First `first`, then `second`, as one permutation.
pub(super) fn compose(first: &[usize], second: &[usize]) -> Vec<usize> {
    second.iter().map(|&p| first[p]).collect()
}

/// From channels last to channels first.
pub(super) fn channels_last_to_first(rank: usize) -> Vec<usize> {
    let mut perm: Vec<usize> = (0..rank).collect();
    if rank > 1 {
        perm[1..].rotate_right(1);
    }
    perm
}

/// Whether nothing moves.
pub(super) fn is_identity(perm: &[usize]) -> bool {
    perm.iter().enumerate().all(|(i, &p)| i == p)
}

/// `items` in the order of `perm`.
pub(super) fn apply<T: Clone>(perm: &[usize], items: &[T]) -> Vec<T> {
    perm.iter().filter_map(|&p| items.get(p).cloned()).collect()
}

/// As an attribute holds it.
pub(super) fn to_ints(perm: &[usize]) -> Vec<i64> {
    perm.iter().map(|&p| p as i64).collect()
}

/// The permutation after the dimensions `axes` (of its input) are taken away.
pub(super) fn squeeze(axes: &[usize], perm: &[usize]) -> Vec<usize> {
    let rank_before = |p: usize| (0..p).filter(|q| !axes.contains(q)).count();
    perm.iter().filter(|p| !axes.contains(p)).map(|&p| rank_before(p)).collect()
}

/// The permutation after dimensions of extent 1 are added at `axes` (of the larger tensor); they
/// stay where they are.
pub(super) fn unsqueeze(axes: &[usize], perm: &[usize]) -> Vec<usize> {
    let rank = perm.len() + axes.len();
    let kept: Vec<usize> = (0..rank).filter(|i| !axes.contains(i)).collect();
    let mut next = perm.iter();
    (0..rank)
        .map(|i| if axes.contains(&i) { i } else { next.next().map_or(i, |&p| kept[p]) })
        .collect()
}

/// The permutation that a reshape between these shapes amounts to, when only dimensions of extent 1
/// move.
pub(super) fn of_reshape(from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let mut left: Vec<Option<usize>> = from.iter().copied().map(Some).collect();
    let mut perm = Vec::with_capacity(to.len());
    for &target in to {
        let mut found = None;
        for (i, extent) in left.iter().enumerate() {
            match extent {
                Some(e) if *e == target => {
                    found = Some(i);
                    break;
                }
                Some(e) if *e != 1 && target != 1 => return None,
                _ => {}
            }
        }
        let i = found?;
        left[i] = None;
        perm.push(i);
    }
    Some(perm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algebra_of_permutations() {
        let perm = [2, 0, 3, 1, 4];
        assert!(is_identity(&compose(&perm, &invert(&perm))));
        assert_eq!(apply(&perm, &[10, 11, 12, 13, 14]), [12, 10, 13, 11, 14]);
        assert_eq!(valid(&[0, 2, 1]), Some(vec![0, 2, 1]));
        assert_eq!(valid(&[0, 2, 2]), None);
        assert_eq!(valid(&[0, -1]), None);
        assert_eq!(channels_last_to_first(4), [0, 3, 1, 2]);
        assert_eq!(squeeze(&[2], &perm), [0, 2, 1, 3]);
        assert_eq!(unsqueeze(&[0, 3], &[2, 0, 1]), [0, 4, 1, 3, 2]);
        assert_eq!(of_reshape(&[1, 512, 4, 1], &[1, 1, 512, 4]), Some(vec![0, 3, 1, 2]));
        assert_eq!(of_reshape(&[2, 3], &[3, 2]), None);
    }
}
