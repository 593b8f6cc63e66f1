//! Which operator each kernel of a CUDA graph belongs to.
//!
//! Kernels of a graph come in the order of its operators. They are mostly those of an eager run,
//! where each operator's are known; where libraries choose others in a graph, the longest common
//! subsequence of names shows which are the same, and the rest belongs to the operator before it.

use super::cupti::Activity;

/// The operator of each of `ran`, by the kernels of each operator in an eager run.
pub(super) fn owners(eager: &[Vec<Activity>], ran: &[Activity]) -> Vec<usize> {
    let each = eager.iter().enumerate();
    let known: Vec<(usize, &str)> = each
        .flat_map(|(owner, kernels)| kernels.iter().map(move |k| (owner, k.name.as_str())))
        .collect();
    let equal = |(k, r): &(&(usize, &str), &Activity)| k.1 == r.name;
    let head = known.iter().zip(ran).take_while(equal).count();
    let rest = known[head..].iter().rev().zip(ran[head..].iter().rev());
    let tail = rest.take_while(equal).count();
    let (middle, changed) = (&known[head..known.len() - tail], &ran[head..ran.len() - tail]);
    let mut owners: Vec<usize> = known[..head].iter().map(|k| k.0).collect();
    let before = owners.last().copied();
    let first = before.or(known.first().map(|k| k.0)).unwrap_or(0);
    owners.extend(common(middle, changed, first));
    owners.extend(known[known.len() - tail..].iter().map(|k| k.0));
    owners
}

/// The same between the common begin and end.
fn common(known: &[(usize, &str)], ran: &[Activity], before: usize) -> Vec<usize> {
    // `longest[k][r]`: length of the longest common subsequence of what follows `k` and `r`.
    let mut longest = vec![vec![0u32; ran.len() + 1]; known.len() + 1];
    for k in (0..known.len()).rev() {
        for r in (0..ran.len()).rev() {
            longest[k][r] = if known[k].1 == ran[r].name {
                longest[k + 1][r + 1] + 1
            } else {
                longest[k + 1][r].max(longest[k][r + 1])
            };
        }
    }
    let (mut k, mut owner) = (0, before);
    let mut owners = Vec::with_capacity(ran.len());
    for (r, activity) in ran.iter().enumerate() {
        while k < known.len() && longest[k + 1][r] == longest[k][r] {
            k += 1;
        }
        if k < known.len() && known[k].1 == activity.name {
            owner = known[k].0;
            k += 1;
        }
        owners.push(owner);
    }
    owners
}

/// What ran, by operator.
pub(super) fn divided(ran: &[Activity], owners: &[usize], count: usize) -> Vec<Vec<Activity>> {
    let mut divided = vec![Vec::new(); count];
    for (activity, &owner) in ran.iter().zip(owners) {
        divided.get_mut(owner).into_iter().for_each(|kernels| kernels.push(activity.clone()));
    }
    divided
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &str) -> Vec<Activity> {
        let one = |name: &str| Activity { name: name.to_owned(), start: 0, end: 0 };
        names.split_whitespace().map(one).collect()
    }

    #[test]
    fn kernels_belong_to_the_operators_that_they_belong_to_in_an_eager_run() {
        let eager = [named("a b"), named(""), named("c"), named("a d"), named("e")];
        for (ran, expected) in [
            ("a b c a d e", vec![0, 0, 2, 3, 3, 4]),
            ("a b c fill a d e", vec![0, 0, 2, 2, 3, 3, 4]),
            ("a b a d e", vec![0, 0, 3, 3, 4]),
            ("x b c a d e", vec![0, 0, 2, 3, 3, 4]),
            ("a b c a split reduce e", vec![0, 0, 2, 3, 3, 3, 4]),
            ("", vec![]),
        ] {
            assert_eq!(owners(&eager, &named(ran)), expected, "{ran}");
        }
        assert_eq!(owners(&[], &named("a")), [0]);
    }

    #[test]
    fn nothing_that_ran_is_lost() {
        let parts = divided(&named("a b c"), &[0, 2, 2], 3);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 2]);
    }
}
