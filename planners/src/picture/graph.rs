//! A model's operators as a graph: depth downwards, branches side by side, coloured by where they
//! run.

use super::svg::{Svg, colour};
use crate::cost::Costs;

const STEP: (f64, f64) = (46.0, 16.0);
const BOX: (f64, f64) = (38.0, 9.0);
const MARGIN: f64 = 40.0;

/// The operators of a model. `processor` says where each runs (an index of the costs' processors),
/// one entry per node; without an entry it is grey.
#[must_use]
pub fn graph(costs: &Costs, processor: &[usize]) -> String {
    let places = places(costs);
    let extent = |of: fn(&(usize, usize)) -> usize| places.iter().map(of).max().unwrap_or(0) as f64;
    let at = |(column, depth): (usize, usize)| {
        (MARGIN + STEP.0 * column as f64, MARGIN + STEP.1 * depth as f64)
    };
    let mut svg = Svg::new(
        2.0 * MARGIN + STEP.0 * (extent(|p| p.0) + 4.0),
        2.0 * MARGIN + STEP.1 * (extent(|p| p.1) + 1.0),
    );
    for tensor in costs.tensors() {
        let Some(producer) = tensor.producer else { continue };
        let (x, y) = at(places[producer]);
        for &consumer in &tensor.consumers {
            let (u, v) = at(places[consumer]);
            let crosses = processor.get(producer) != processor.get(consumer);
            let (stroke, width) = if crosses { ("#d40000", 2.0) } else { ("#aaaaaa", 1.0) };
            svg.line((x + BOX.0 / 2.0, y + BOX.1), (u + BOX.0 / 2.0, v), stroke, width);
        }
    }
    for (node, costs_of) in costs.nodes().iter().enumerate() {
        let fill = processor.get(node).map_or("#cccccc", |&p| colour(p));
        svg.rectangle(at(places[node]), BOX, fill, &costs_of.name);
    }
    for (index, named) in costs.processors().iter().enumerate() {
        let x = MARGIN + 110.0 * index as f64;
        svg.rectangle((x, 12.0), BOX, colour(index), &named.name);
        svg.text((x + BOX.0 + 6.0, 20.0), &named.name);
    }
    svg.finish()
}

/// Column and depth of each node: as deep as its longest way from an input, in the first free
/// column of that depth.
fn places(costs: &Costs) -> Vec<(usize, usize)> {
    let mut depth = vec![0usize; costs.nodes().len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); costs.nodes().len()];
    for tensor in costs.tensors() {
        if let Some(producer) = tensor.producer {
            readers[producer].extend(&tensor.consumers);
        }
    }
    for node in 0..depth.len() {
        for &reader in &readers[node] {
            depth[reader] = depth[reader].max(depth[node] + 1);
        }
    }
    let mut taken = vec![0usize; depth.iter().max().map_or(0, |d| d + 1)];
    let place = |&depth: &usize| {
        taken[depth] += 1;
        (taken[depth] - 1, depth)
    };
    depth.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Interval, NodeCosts, ProcessorCosts, TensorCosts};

    #[test]
    fn branches_stand_side_by_side_and_crossings_are_red() {
        let node = |name: &str| NodeCosts {
            name: name.to_owned(),
            latency_ns: vec![Some(Interval::exact(1)); 2],
            energy_nj: vec![None; 2],
            memory_bytes: 0,
        };
        let tensor = |name: &str, producer, consumers: &[usize]| TensorCosts {
            name: name.to_owned(),
            size_bytes: 1,
            producer: Some(producer),
            consumers: consumers.to_vec(),
            output: false,
            confined: false,
        };
        let tensors = vec![tensor("a", 0, &[1, 2]), tensor("b", 1, &[3]), tensor("c", 2, &[3])];
        let processors = ["device", "server"].map(ProcessorCosts::named).to_vec();
        let costs = Costs::new(
            "m",
            processors,
            std::collections::BTreeMap::new(),
            ["w", "x", "y", "z"].map(node).to_vec(),
            tensors,
            vec![],
        )
        .expect("costs");
        assert_eq!(places(&costs), [(0, 0), (0, 1), (1, 1), (0, 2)]);
        let picture = graph(&costs, &[0, 0, 0, 1]);
        assert_eq!(picture.matches("#d40000").count(), 2);
        assert_eq!(picture.matches("<rect x=").count(), 4 + 2);
    }
}
