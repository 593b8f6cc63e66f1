//! Non-dominated sorting and crowding. A point dominates another when it is nowhere larger and
//! somewhere smaller: everything is minimised.

use std::cmp::Ordering;

/// The fronts of points, best first, as indices: no point of a front is dominated by one of the
/// same or of a later front, and each by one of the front before it. Equal points are in the same
/// front.
///
/// Points are taken in lexicographic order, so that none is dominated by a later one, and each goes
/// into the first front that does not dominate it, found by halving (Zhang, Tian, Cheng, Jin: "An
/// efficient approach to nondominated sorting for evolutionary multiobjective optimization", IEEE
/// TEC 19(2), 2015). With two objectives, a front dominates a point exactly when its latest member
/// does.
#[must_use]
pub fn fronts<P: AsRef<[f64]>>(points: &[P]) -> Vec<Vec<usize>> {
    let point = |index: usize| points[index].as_ref();
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| lexicographic(point(a), point(b)).then(a.cmp(&b)));
    let mut fronts: Vec<Vec<usize>> = Vec::new();
    for index in order {
        let rival = |front: &Vec<usize>| {
            let considered = if point(index).len() == 2 { 1 } else { front.len() };
            front.iter().rev().take(considered).any(|&other| dominates(point(other), point(index)))
        };
        let at = fronts.partition_point(rival);
        match fronts.get_mut(at) {
            Some(front) => front.push(index),
            None => fronts.push(vec![index]),
        }
    }
    fronts
}

fn lexicographic(a: &[f64], b: &[f64]) -> Ordering {
    a.iter()
        .zip(b)
        .map(|(a, b)| a.total_cmp(b))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Whether `a` is nowhere larger than `b` and somewhere smaller.
#[must_use]
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b) && a.iter().zip(b).any(|(a, b)| a < b)
}

/// How far the neighbours of each point of a front are, summed over the objectives, each relative
/// to its range; infinite at the ends.
#[must_use]
pub fn crowding<P: AsRef<[f64]>>(points: &[P], front: &[usize]) -> Vec<f64> {
    let mut distance = vec![0.0; front.len()];
    let objectives = front.first().map_or(0, |&i| points[i].as_ref().len());
    let mut order: Vec<usize> = (0..front.len()).collect();
    for objective in 0..objectives {
        let value = |place: usize| points[front[place]].as_ref()[objective];
        order.sort_by(|&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
        let (Some(&first), Some(&last)) = (order.first(), order.last()) else { break };
        let range = value(last) - value(first);
        (distance[first], distance[last]) = (f64::INFINITY, f64::INFINITY);
        if range > 0.0 {
            for three in order.windows(3) {
                distance[three[1]] += (value(three[2]) - value(three[0])) / range;
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_search_space::Generator;

    /// Fronts from their definition.
    fn peeled(points: &[Vec<f64>]) -> Vec<Vec<usize>> {
        let mut left: Vec<usize> = (0..points.len()).collect();
        let mut fronts = Vec::new();
        while !left.is_empty() {
            let free = |&i: &usize| left.iter().all(|&j| !dominates(&points[j], &points[i]));
            let front: Vec<usize> = left.iter().copied().filter(free).collect();
            left.retain(|i| !front.contains(i));
            fronts.push(front);
        }
        fronts
    }

    #[test]
    fn fronts_are_those_of_the_definition() {
        let mut generator = Generator::new(4);
        for round in 0..600 {
            let objectives = 1 + round % 4;
            // Few distinct values, so that ties and equal points occur.
            let points: Vec<Vec<f64>> = (0..round % 61)
                .map(|_| (0..objectives).map(|_| generator.below(9) as f64).collect())
                .collect();
            let mut found = fronts(&points);
            found.iter_mut().for_each(|front| front.sort_unstable());
            assert_eq!(found, peeled(&points), "{points:?}");
        }
    }

    #[test]
    fn crowding_by_hand() {
        let points = [[0.0, 10.0], [1.0, 6.0], [4.0, 2.0], [5.0, 0.0]];
        let distance = crowding(&points, &[0, 1, 2, 3]);
        assert_eq!((distance[0], distance[3]), (f64::INFINITY, f64::INFINITY));
        assert!(
            (distance[1] - (4.0 / 5.0 + 8.0 / 10.0)).abs() < 1e-12
                && (distance[2] - (4.0 / 5.0 + 6.0 / 10.0)).abs() < 1e-12
        );
        assert_eq!(crowding(&points, &[2]), [f64::INFINITY]);
        assert!(crowding(&points, &[]).is_empty());
        assert_eq!(
            crowding(&[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], &[0, 1, 2])[1],
            0.0,
            "no range, no distance"
        );
    }
}
