//! [`Front`]: the Pareto front of latency and accuracy over all stitched variants, where accuracy
//! is a sum of drops. One front serves all objectives.
//!
//! F_0 = {(0, 0)}; F_j keeps, of all sums of a point of F_(j-1) and a subgraph at position j, those
//! that no other dominates. Drops are whole parts of a basis point, so a front has at most as many
//! points as there are drops, however many variants there are: work S |F| V.

use super::{Additive, Stitched, zoo::Part};

/// The best prefix with this drop: a point of the previous front, and the variant of the last
/// position.
#[derive(Clone, Copy)]
struct Point {
    drop: u32,
    from: u32,
    variant: u32,
    latency_ns: u64,
}

const NOTHING: Point = Point { drop: 0, from: 0, variant: 0, latency_ns: u64::MAX };

pub(super) struct Front<'a> {
    accuracy: &'a Additive,
    /// The fronts by number of positions; drops rise, latencies fall.
    layers: Vec<Vec<Point>>,
}

impl<'a> Front<'a> {
    pub(super) fn new(accuracy: &'a Additive, parts: &[Vec<Part>]) -> Self {
        let mut layers = vec![vec![Point { latency_ns: 0, ..NOTHING }]];
        for (position, row) in parts.iter().enumerate() {
            let point = |part: &Part| Point {
                drop: accuracy.drop_of(position, part.variant),
                from: 0,
                variant: part.variant as u32,
                latency_ns: part.latency_ns,
            };
            let options = unbeaten(row.iter().map(point).collect());
            let longer = extended(layers.last().map_or(&[], Vec::as_slice), &options);
            layers.push(longer);
        }
        Self { accuracy, layers }
    }

    /// Number of points of all layers.
    pub(super) fn points(&self) -> usize {
        self.layers.iter().map(Vec::len).sum()
    }

    /// The fastest with at most this drop; among equals the least drop.
    pub(super) fn fastest(&self, allowed_drop: u32) -> Option<Stitched> {
        let last = self.layers.last()?;
        self.stitched(last.partition_point(|p| p.drop <= allowed_drop).checked_sub(1)?)
    }

    /// The most accurate; among equals the fastest.
    pub(super) fn most_accurate(&self) -> Option<Stitched> {
        self.stitched(0)
    }

    fn stitched(&self, index: usize) -> Option<Stitched> {
        let end = *self.layers.last()?.get(index)?;
        let mut variants = vec![0; self.layers.len() - 1];
        let mut at = end;
        for (position, variant) in variants.iter_mut().enumerate().rev() {
            *variant = at.variant as usize;
            at = *self.layers.get(position)?.get(at.from as usize)?;
        }
        Some(Stitched {
            variants,
            latency_ns: end.latency_ns,
            accuracy_bp: self.accuracy.after(end.drop),
        })
    }
}

/// All sums of a point and an option that no other sum dominates.
fn extended(front: &[Point], options: &[Point]) -> Vec<Point> {
    let (Some(last), Some(most)) = (front.last(), options.last()) else { return Vec::new() };
    let sum = |from: usize, a: &Point, b: &Point| Point {
        drop: a.drop + b.drop,
        from: from as u32,
        variant: b.variant,
        latency_ns: a.latency_ns.saturating_add(b.latency_ns),
    };
    let sums = || {
        front.iter().enumerate().flat_map(|(from, a)| options.iter().map(move |b| sum(from, a, b)))
    };
    let span = (last.drop + most.drop) as usize;
    if front.len() * options.len() < span / 4 {
        return unbeaten(sums().collect());
    }
    // Many sums on few drops: the fastest of each drop.
    let mut fastest = vec![NOTHING; span + 1];
    for point in sums() {
        let slot = &mut fastest[point.drop as usize];
        if point.latency_ns < slot.latency_ns {
            *slot = point;
        }
    }
    falling(fastest)
}

fn unbeaten(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_unstable_by_key(|p| (p.drop, p.latency_ns, p.from, p.variant));
    falling(points)
}

/// Of points with rising drops, those that are faster than all before them.
fn falling(mut points: Vec<Point>) -> Vec<Point> {
    let mut fastest = u64::MAX;
    points.retain(|p| {
        let keeps = p.latency_ns < fastest;
        fastest = fastest.min(p.latency_ns);
        keeps
    });
    points
}
